#include "config/sources/run_lock.hpp"

#include "config/text/failure.hpp"
#include "config/text/text.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

namespace troupe::config {

namespace {

constexpr const char* file_name = "run.lock";

std::string text_of_error(int error) {
  return std::generic_category().message(error);
}

/// "process 123 on node-7", as the holder has written it.
std::string holder(int file) {
  std::array<char, 300> text;
  auto size = pread(file, text.data(), text.size(), 0);
  if (size <= 0)
    return "another process";
  std::string_view all{text.data(), static_cast<size_t>(size)};
  return shown(all.substr(0, all.find('\n')));
}

void sign(int file) {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  auto text = "process " + std::to_string(getpid()) + " on " +
              std::string{host.data()} + "\n";
  // Only for people: whether it could be written does not matter.
  if (ftruncate(file, 0) == 0) [[maybe_unused]]
    auto done = pwrite(file, text.data(), text.size(), 0);
}

} // namespace

std::shared_ptr<const run_lock>
run_lock::take(const std::filesystem::path& folder) {
  auto path = folder / file_name;
  std::shared_ptr<run_lock> out{new run_lock};
  out->file_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (out->file_ < 0)
    throw run_error("cannot open " + path.string() + ": " +
                    text_of_error(errno));
  if (flock(out->file_, LOCK_EX | LOCK_NB) == 0) {
    sign(out->file_);
    return out;
  }
  if (errno == EWOULDBLOCK)
    throw run_error("train-dir " + folder.string() + ": a run is under way " +
                    "there, of " + holder(out->file_) +
                    "; end that first, or give another folder");
  out->warning_ = "cannot lock " + path.string() + " (" + text_of_error(errno) +
                  "): see to it that no other run uses the folder";
  return out;
}

run_lock::~run_lock() {
  if (file_ >= 0)
    close(file_);
}

} // namespace troupe::config
