#pragma once
// Writes and reads the file of an event log: length-delimited protobuf (a
// varint, then that many bytes of a `LogEvent`), each event protected by a
// CRC-32C. See docs/formats.md.
//
// The writer is owned by the parameter server's event sink, the reader by a
// replay or by `calibrate`. Not thread-safe.

#include "config/text/descriptor.hpp"
#include "messages/proto/event_log.pb.h"
#include "models/storage/durable_file.hpp"

#include <cstdint>
#include <filesystem>
#include <string>

namespace troupe::recording {

/// The only version of event logs that this build writes and reads.
inline constexpr uint32_t event_log_format = 1;

/// The file name for a life of the server.
std::string event_log_name(uint32_t life);

/// Renames an existing event log to `abandoned-<name>`, or `abandoned-<k>-...`
/// if that exists: release 0.1.0 gave a life the same number again if the
/// earlier one had left no checkpoint. Returns the new path; empty when there
/// was none. Throws `run_error`.
std::filesystem::path
set_event_log_aside(const std::filesystem::path& event_log);

/// Writes an event log, with one system call for each event: what is written
/// survives the death of the process, but not a power failure (no fsync). Not
/// thread-safe; one owner.
class event_log_file {
public:
  /// Creates the file, which must not exist. Throws `run_error`.
  explicit event_log_file(std::filesystem::path path);

  /// Numbers the event and writes it. Throws `run_error` (disk full); the file
  /// then ends with the event before it.
  void write(proto::LogEvent& event);

private:
  std::filesystem::path path_;
  config::descriptor file_;
  uint64_t size_ = 0;
  uint64_t events_ = 0;
  std::string buffer_;
};

/// Reads an event log from its beginning. Not thread-safe.
class event_log_reader {
public:
  /// Throws `run_error` when the file cannot be read, is not an event log or
  /// has another format.
  explicit event_log_reader(std::filesystem::path path);

  /// The first event.
  const proto::LogBegin& begin() const { return begin_; }

  /// Reads the next event after the first. False at the end; an incomplete last
  /// event counts as not written. Throws `run_error` for a damaged event, with
  /// its number and position.
  bool next(proto::LogEvent& out);

  /// Events read so far, including the first: the number of the last one.
  uint64_t events() const noexcept { return events_; }

  /// Bytes of an incomplete last event; known only at the end.
  uint64_t cut() const noexcept { return cut_; }

  const std::filesystem::path& path() const noexcept { return path_; }

private:
  bool read(proto::LogEvent& out);
  [[noreturn]] void refuse(const std::string& why) const;

  std::filesystem::path path_;
  models::file_bytes bytes_;
  size_t at_ = 0;
  uint64_t events_ = 0;
  uint64_t cut_ = 0;
  proto::LogBegin begin_;
};

} // namespace troupe::recording
