#pragma once
// Opens files that a user named, or that lie in a folder that a user named, for
// reading. Only regular files are accepted: opening a pipe would block until
// somebody writes to it, and a device may have no end.
//
// Thread-safe: `read` takes the position, the object keeps none. One owner.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>

namespace troupe::config {

/// Why a file cannot be read. `what()` is the reason alone ("No such file or
/// directory", "it is not a regular file"); the caller, who knows what the file
/// is for, makes an error line of it.
class unreadable : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

class input_file {
public:
  /// Opens the file without blocking. Throws `unreadable`.
  explicit input_file(const std::filesystem::path& path);

  ~input_file();

  input_file(const input_file&) = delete;
  input_file& operator=(const input_file&) = delete;

  /// The file's size when it was opened.
  uint64_t size() const noexcept { return size_; }

  /// Reads from `position` into `to`, up to the end of the file; returns the
  /// number of bytes. Throws `unreadable`.
  size_t read(uint64_t position, std::span<std::byte> to) const;

  /// Gives up the file descriptor: the caller must close it.
  int release() noexcept;

private:
  int handle_ = -1;
  uint64_t size_ = 0;
};

/// Reads the first `most` bytes of a file, or all if it has fewer. Throws
/// `unreadable`.
std::string read_text(const std::filesystem::path& path,
                      uint64_t most = UINT64_MAX);

/// "PATH: cannot be read: REASON", as a `run_error`.
[[noreturn]] void refuse_file(const std::filesystem::path& path,
                              const unreadable& why);

} // namespace troupe::config
