#pragma once
// The file of an event log: length-delimited protobuf (a varint, then so many
// bytes of a `LogEvent`), each event sealed with a CRC-32C. See
// docs/formats.md.

#include "messages/proto/event_log.pb.h"
#include "models/storage/durable_file.hpp"

#include <cstdint>
#include <filesystem>
#include <string>

namespace troupe::recording {

/// The one version of event logs that this build writes and reads.
inline constexpr uint32_t event_log_format = 1;

/// `event_log-1.pb`
std::string event_log_name(uint32_t life);

/// Renames an event log that is there to `abandoned-<name>`, or
/// `abandoned-<k>-...` where that is taken: release 0.1.0 lived a life that
/// left no checkpoint again under the same number. Returns the new path; empty
/// when there was none. Throws `run_error`.
std::filesystem::path
set_event_log_aside(const std::filesystem::path& event_log);

/// Writes an event log, one `write` an event: what `write` has taken survives
/// the death of the process, though not a power cut (no fsync). Not
/// thread-safe; one owner.
class event_log_file {
public:
  /// Makes the file, which must not be there. Throws `run_error`.
  explicit event_log_file(std::filesystem::path path);

  ~event_log_file();

  event_log_file(const event_log_file&) = delete;
  event_log_file& operator=(const event_log_file&) = delete;

  /// Numbers the event and writes it. Throws `run_error` (disk full); the file
  /// then ends with the event before.
  void write(proto::LogEvent& event);

private:
  std::filesystem::path path_;
  int handle_ = -1;
  uint64_t size_ = 0;
  uint64_t events_ = 0;
  std::string buffer_;
};

/// Reads an event log from its beginning. Not thread-safe.
class event_log_reader {
public:
  /// Throws `run_error` when the file cannot be read, is no event log or is of
  /// another format.
  explicit event_log_reader(std::filesystem::path path);

  /// The first event.
  const proto::LogBegin& begin() const { return begin_; }

  /// The next event after the first. False at the end; a last event of which a
  /// part is missing counts as not written. Throws `run_error` for one that is
  /// damaged, with its number and position.
  bool next(proto::LogEvent& out);

  /// Events so far, the first included: the number of the last one.
  uint64_t events() const noexcept { return events_; }

  /// Bytes of a torn last event; known at the end.
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
