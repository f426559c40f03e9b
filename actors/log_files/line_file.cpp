#include "actors/log_files/line_file.hpp"

#include "actors/log_files/appending.hpp"
#include "config/text/failure.hpp"

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <exception>
#include <string>
#include <utility>

namespace troupe::recording {

namespace {

/// The `size` bytes that end at `last`.
std::string read_before(int handle, uint64_t last, uint64_t size,
                        const std::filesystem::path& path) {
  std::string result(size, '\0');
  auto n =
    ::pread(handle, result.data(), size, static_cast<off_t>(last - size));
  if (n != static_cast<ssize_t>(size))
    fail("read", path);
  return result;
}

/// The beginning of the line that ends right before `last`.
uint64_t line_start(int handle, uint64_t last,
                    const std::filesystem::path& path) {
  constexpr uint64_t piece = 4096;
  while (last > 0) {
    auto size = std::min(piece, last);
    auto found = read_before(handle, last, size, path).rfind('\n');
    if (found != std::string::npos)
      return last - size + found + 1;
    last -= size;
  }
  return 0;
}

/// The size of the file without an incomplete end. After a crash of the machine
/// the end may hold zeros instead of lines, so complete lines must also be
/// valid JSON.
uint64_t whole_size(int handle, uint64_t size,
                    const std::filesystem::path& path) {
  auto end = line_start(handle, size, path);
  while (end > 0) {
    auto start = line_start(handle, end - 1, path);
    auto line = read_before(handle, end, end - start, path);
    if (nlohmann::json::accept(line))
      return end;
    end = start;
  }
  return 0;
}

} // namespace

line_file::line_file(std::filesystem::path path, mode how, size_t gathers)
  : path_(std::move(path)), gathers_(gathers) {
  auto flags = O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC |
               (how == mode::fresh ? O_TRUNC : 0);
  file_ = config::descriptor{::open(path_.c_str(), flags, 0644)};
  if (!file_)
    fail("open", path_);
  struct stat info;
  if (::fstat(file_.get(), &info) != 0)
    fail("read", path_);
  auto found = static_cast<uint64_t>(info.st_size);
  size_ = whole_size(file_.get(), found, path_);
  cut_ = found - size_;
  if (cut_ > 0 && ::ftruncate(file_.get(), static_cast<off_t>(size_)) != 0)
    fail("write", path_);
}

line_file::~line_file() {
  try {
    flush();
  } catch (const std::exception&) {
    // Callers that need to know of errors have flushed before.
  }
}

void line_file::append(std::string_view line) {
  gathered_ += line;
  gathered_ += '\n';
  if (gathered_.size() >= gathers_)
    flush();
}

void line_file::flush() {
  auto text = std::exchange(gathered_, {});
  append_whole(file_.get(), text, size_, path_);
  size_ += text.size();
  text.clear();
  gathered_ = std::move(text); // Reuses its memory.
}

} // namespace troupe::recording
