#include "config/run_folder/run_lock.hpp"

#include "config/text/failure.hpp"
#include "config/text/text.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <system_error>
#include <thread>

namespace troupe::config {

namespace {

constexpr const char* file_name = "run.lock";

/// The beginning of a holder's signature.
constexpr std::string_view signature_begin = "process ";

std::string text_of_error(int error) {
  return std::generic_category().message(error);
}

/// "process 123 on node-7", as the holder has written it; empty if none has.
std::string signature_in(int file) {
  std::array<char, 300> text;
  auto size = pread(file, text.data(), text.size(), 0);
  std::string_view all{text.data(), size > 0 ? static_cast<size_t>(size) : 0};
  return std::string{all.substr(0, all.find('\n'))};
}

std::string own_signature() {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  return std::string{signature_begin} + std::to_string(getpid()) + " on " +
         std::string{host.data()};
}

std::string holder_in(int file) {
  auto found = signature_in(file);
  return found.empty() ? "another process" : shown(found);
}

/// Signs the lock, for people and for nodes that ask whether the holder is
/// still the same. Nothing is lost if this fails.
void sign(int file) {
  auto text = own_signature() + "\n";
  if (ftruncate(file, 0) == 0 && pwrite(file, text.data(), text.size(), 0) > 0)
    fsync(file); // So that other hosts see it.
}

/// Whether a lock that this process holds keeps another process out: some file
/// systems grant every request. A child tries it, and makes only calls that are
/// safe after a fork.
bool keeps_others_out(const char* path) {
  auto child = fork();
  if (child == 0) {
    auto file = open(path, O_RDWR | O_CLOEXEC);
    auto refused = file >= 0 && flock(file, LOCK_EX | LOCK_NB) != 0;
    _exit(refused ? 0 : 1);
  }
  int status = 1;
  while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
    continue;
  return child < 0 || status == 0; // Without a child nothing is known.
}

/// The descriptor that the program before has left; negative if it has not, or
/// it is of another file.
int handed_over(const char* path) {
  const auto* text = std::getenv(run_lock_variable);
  if (text == nullptr)
    return -1;
  auto file = std::atoi(text);
  unsetenv(run_lock_variable);
  struct stat ours {};
  struct stat named {};
  if (fstat(file, &ours) != 0 || stat(path, &named) != 0 ||
      ours.st_dev != named.st_dev || ours.st_ino != named.st_ino)
    return -1;
  fcntl(file, F_SETFD, FD_CLOEXEC);
  return file;
}

bool lock_within(int file, double patience) {
  using namespace std::chrono_literals;
  auto end =
    std::chrono::steady_clock::now() + std::chrono::duration<double>(patience);
  while (flock(file, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK || std::chrono::steady_clock::now() >= end)
      return false;
    std::this_thread::sleep_for(20ms);
  }
  return true;
}

} // namespace

std::shared_ptr<const run_lock>
run_lock::acquire(const std::filesystem::path& folder, double patience,
                  const std::function<void(const run_lock&)>& check) {
  auto path = folder / file_name;
  std::shared_ptr<run_lock> out{new run_lock};
  out->file_ = handed_over(path.c_str());
  if (out->file_ < 0)
    out->file_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (out->file_ < 0)
    throw run_error("cannot open " + path.string() + ": " +
                    text_of_error(errno));
  if (auto found = signature_in(out->file_);
      !found.empty() && !found.starts_with(signature_begin))
    throw usage_error(path.string() +
                      ": is a file of something else, and not the lock of a "
                      "run: move it away, or give another folder");
  auto locked = lock_within(out->file_, patience);
  auto error = errno;
  if (!locked && error == EWOULDBLOCK)
    throw run_error("train-dir " + folder.string() + ": a run is under way " +
                    "there, of " + holder_in(out->file_) +
                    "; end that first, or give another folder");
  out->was_ours_ = signature_in(out->file_) == own_signature();
  if (!locked)
    out->warning_ = "cannot lock " + path.string() + " (" +
                    text_of_error(error) +
                    "): see to it that no other run uses the folder";
  else if (!keeps_others_out(path.c_str()))
    out->warning_ = "the lock of " + path.string() +
                    " keeps no other process out (the file system grants it to "
                    "each): see to it that no other run uses the folder";
  if (check)
    check(*out);
  sign(out->file_);
  return out;
}

// Asks for a shared lock, which only the holder refuses, not others who look.
lock_view run_lock::look(const std::filesystem::path& folder) {
  auto path = folder / file_name;
  auto file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return {};
  lock_view out{lock_state::free, holder_in(file)};
  if (flock(file, LOCK_SH | LOCK_NB) != 0)
    out.state = errno == EWOULDBLOCK ? lock_state::held : lock_state::absent;
  close(file);
  return out;
}

void run_lock::hand_over() const {
  setenv(run_lock_variable, std::to_string(file_).c_str(), 1);
  fcntl(file_, F_SETFD, 0);
}

run_lock::~run_lock() {
  if (file_ >= 0)
    close(file_);
}

} // namespace troupe::config
