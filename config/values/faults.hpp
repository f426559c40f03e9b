#pragma once
// Declared faults of a simulated run (`--faults`): what breaks, where and when.
// A file has a fault a line, in any order; what follows a # is a comment:
//
//   # s   what
//   5     crash(worker=3,restart=4)       its process; without restart for good
//   12.5  crash-server(restart=3)         comes back from its newest checkpoint
//   20    slow(worker=1,factor=5,for=10)  computations begun meanwhile
//   30    cut(worker=2,for=8)             its link carries nothing
//   40    delay(worker=0,by=2,for=10)     each message takes so much longer
//   50    duplicate(worker=0,after=1,for=10)  each gradient arrives once more
//   60    cut-up(worker=2,for=8)          nothing of it reaches the server
//   60    cut-down(worker=2,for=8)        nothing of the server reaches it
//   70    pause(for=20)                   all of the run, as stopped
//   80    stall-recorder(for=5)           the run directory takes no lines
//
// Instead of a file, random(7) or random(seed=7,faults=6,until=40) draws them;
// see actors/cores/fault_draw.hpp.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::config {

enum class fault_kind : uint8_t {
  crash,
  crash_server,
  slow,
  cut,
  delay,
  duplicate,
  cut_up,
  cut_down,
  pause,
  stall_recorder
};

inline constexpr size_t fault_kinds = 10;

/// Whether it meets one worker, or the run.
constexpr bool meets_worker(fault_kind x) {
  return x != fault_kind::crash_server && x != fault_kind::pause &&
         x != fault_kind::stall_recorder;
}

/// "crash-server"
std::string_view to_string(fault_kind x);

/// Times are virtual seconds since the run began.
struct fault {
  double at = 0;
  fault_kind what = fault_kind::crash;
  uint32_t worker = 0; ///< Whom it meets, where it meets one worker.
  /// How long it lasts; for a crash, until the restart; nothing: for good.
  std::optional<double> lasts;
  double by = 0; ///< slow: factor; delay, duplicate: s.

  bool operator==(const fault&) const = default;
};

/// `random(...)`: how many faults to draw, from what, for which span of time.
struct random_faults {
  uint64_t seed = 1;
  uint32_t faults = 6;
  double until = 40;

  bool operator==(const random_faults&) const = default;
};

/// Reads one fault, "crash(worker=3,restart=4)". Throws `bad_value`.
fault parse_fault(double at, std::string_view text);

/// As `parse_fault` reads it back.
std::string to_string(const fault& x);

/// Reads a text of many lines for so many workers; `name` is how errors call
/// it. Throws `usage_error` that names the line. In the order of times.
std::vector<fault> parse_faults(std::string_view text, const std::string& name,
                                uint32_t workers);

/// Reads a file; one that cannot be read is a `usage_error`, too.
std::vector<fault> read_faults(const std::filesystem::path& file,
                               uint32_t workers);

/// Nothing when the value of `--faults` names a file. Throws `bad_value` for a
/// wrong `random(...)`.
std::optional<random_faults> parse_random_faults(std::string_view text);

} // namespace troupe::config
