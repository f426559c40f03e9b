#pragma once
// What a process does to one folder of the disk, call by call. The recorder
// (disk_recorder.cpp) takes the place of the system's calls where it is linked
// in or preloaded, writes each that touches the folder to a file, and carries
// it out.

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
  rename,   ///< `path` to `other`, in the place of what is there
  exchange, ///< `path` and `other` change places
  unlink,   ///< the file `path`
  remove,   ///< the folder `path`
  mark,     ///< no call: the test says `text`
  strange   ///< a call that the recorder does not know how to tell
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

/// Events of a trace, in their order. A torn last one is left out.
std::vector<disk_event> read_disk_trace(const std::filesystem::path& trace);

/// As the recorder writes it.
std::string to_bytes(const disk_event& event);

// -- where the recorder is linked in ------------------------------------------

/// Records all that this process does below `root` until `end_recording`.
void begin_recording(const std::filesystem::path& root,
                     const std::filesystem::path& trace);
void end_recording();

/// Puts a word of the test's own into the trace.
void mark_recording(const std::string& text);

/// File systems that cannot exchange two names in one step.
void forbid_exchange(bool yes);

/// From here on reads of this file fail as on a broken disk; empty: none.
void break_reads(const std::filesystem::path& file);

} // namespace troupe::testing
