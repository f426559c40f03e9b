#pragma once
// The calls by which a process changes one folder of the disk. The recorder
// (disk_recorder.cpp) replaces the system's calls, linked in or preloaded; it
// writes each call that touches the folder to a file, and then carries it out.
// Thread-safe.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace troupe::testing {

enum class disk_call : uint8_t {
  open,     ///< `file` from here on is what lies at `path`
  close,    ///< of `file`
  write,    ///< `text` into `file` at `offset`
  resize,   ///< `file` to `offset` bytes
  sync,     ///< of `file`, which may be a folder
  make,     ///< the folder `path`
  rename,   ///< `path` to `other`, replacing what is there
  exchange, ///< `path` and `other` swap names
  unlink,   ///< the file `path`
  remove,   ///< the folder `path`
  mark,     ///< no call: the test adds `text`
  strange   ///< a call that the recorder cannot describe
};

struct disk_event {
  disk_call what = disk_call::mark;
  int32_t file = -1;
  uint64_t offset = 0;
  std::string path;  ///< Relative to the folder.
  std::string other; ///< The same.
  std::string text;
  bool made = false;    ///< By this `open`.
  bool emptied = false; ///< The same.
};

/// The environment of a process into which the recorder is preloaded.
inline constexpr const char* disk_root_variable = "TROUPE_DISK_ROOT";
inline constexpr const char* disk_trace_variable = "TROUPE_DISK_TRACE";

/// The events of a trace, in order. An incomplete last one is left out.
std::vector<disk_event> read_disk_trace(const std::filesystem::path& trace);

/// An event as the recorder writes it.
std::string to_bytes(const disk_event& event);

// -- where the recorder is linked in ------------------------------------------

/// Records all changes by this process below `root` until `end_recording`.
void begin_recording(const std::filesystem::path& root,
                     const std::filesystem::path& trace);
void end_recording();

/// Adds a text of the test to the trace.
void mark_recording(const std::string& text);

/// Imitates file systems that cannot swap two names in one step.
void forbid_exchange(bool yes);

/// From now on reads of this file fail as on a broken disk; empty: none.
void break_reads(const std::filesystem::path& file);

} // namespace troupe::testing
