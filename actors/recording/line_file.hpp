#pragma once
// A text file of whole lines that only grows. What a line says is on its way to
// the disk when `append` returns (no fsync), unless lines are gathered. Not
// thread-safe; one owner.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace troupe::recording {

class line_file {
public:
  enum class mode {
    fresh, ///< Empties a file that is there.
    resume ///< Keeps its lines and cuts a torn end.
  };

  /// Lines are gathered until they are `gathers` bytes: 0 writes each at once.
  /// Throws `run_error` when the file cannot be opened.
  line_file(std::filesystem::path path, mode how, size_t gathers = 0);

  ~line_file();

  line_file(const line_file&) = delete;
  line_file& operator=(const line_file&) = delete;

  /// Writes `line` and a line feed. Throws `run_error` (disk full); the file
  /// then ends with a line that was written before.
  void append(std::string_view line);

  /// Writes what is gathered. Throws as `append` does.
  void flush();

  /// Bytes that were cut from the end when the file was opened.
  uint64_t cut() const noexcept { return cut_; }

private:
  std::filesystem::path path_;
  int handle_ = -1;
  size_t gathers_ = 0;
  std::string gathered_;
  uint64_t size_ = 0;
  uint64_t cut_ = 0;
};

} // namespace troupe::recording
