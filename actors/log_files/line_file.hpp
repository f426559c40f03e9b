#pragma once
// A text file of whole lines that only grows. When `append` returns, the line
// has been passed to the operating system (no fsync), unless lines are
// buffered.
//
// A member of the logs of the recorder. Not thread-safe; one owner.

#include "config/text/descriptor.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace troupe::recording {

class line_file {
public:
  enum class mode {
    fresh, ///< Empties an existing file.
    resume ///< Keeps its lines; cuts an incomplete end.
  };

  /// Opens the file. Throws `run_error` when it cannot.
  /// @param gathers Lines are buffered up to this many bytes; 0 writes each at
  /// once.
  line_file(std::filesystem::path path, mode how, size_t gathers = 0);

  ~line_file();

  line_file(const line_file&) = delete;
  line_file& operator=(const line_file&) = delete;

  /// Writes `line` and a line feed. Throws `run_error` (disk full); the file
  /// then ends with a complete earlier line.
  void append(std::string_view line);

  /// Writes the buffered lines. Throws as `append` does.
  void flush();

  /// Bytes that were cut from the end when the file was opened.
  uint64_t cut() const noexcept { return cut_; }

private:
  std::filesystem::path path_;
  config::descriptor file_;
  size_t gathers_ = 0;
  std::string gathered_;
  uint64_t size_ = 0;
  uint64_t cut_ = 0;
};

} // namespace troupe::recording
