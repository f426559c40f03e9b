#pragma once
// Files that a user named, or that lie in a folder that a user named, opened to
// be read. Only regular files: a pipe would make us wait until somebody writes
// to it, and a device may have no end.
//
// Thread-safe: reading has no position of its own.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>

namespace troupe::config {

/// Why a file cannot be read: `what()` is the reason alone ("No such file or
/// directory", "it is not a regular file"). Whoever knows what the file is for
/// makes a line of it.
class unreadable : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

class input_file {
public:
  /// Never waits. Throws `unreadable`.
  explicit input_file(const std::filesystem::path& path);

  ~input_file();

  input_file(const input_file&) = delete;
  input_file& operator=(const input_file&) = delete;

  /// Bytes that it had when it was opened.
  uint64_t size() const noexcept { return size_; }

  /// Fills `to` with what lies from `position` on, as far as the file goes;
  /// returns the number of bytes. Throws `unreadable`.
  size_t read(uint64_t position, std::span<std::byte> to) const;

  /// Gives the handle away: whoever takes it closes it.
  int release() noexcept;

private:
  int handle_ = -1;
  uint64_t size_ = 0;
};

/// The first `most` bytes of a file, or all if it has fewer. Throws
/// `unreadable`.
std::string read_text(const std::filesystem::path& path,
                      uint64_t most = UINT64_MAX);

/// "PATH: cannot be read: REASON", as a `run_error`.
[[noreturn]] void refuse_file(const std::filesystem::path& path,
                              const unreadable& why);

} // namespace troupe::config
