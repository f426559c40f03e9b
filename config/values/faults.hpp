#pragma once
// Faults of a simulated run (`--faults`): what fails, where and when. Plain
// values; the fault injector of the simulation carries them out. A file has one
// fault per line, in any order; # begins a comment:
//
//   # s   what
//   5     crash(worker=3,restart=4)       its process; no restart: for good
//   12.5  crash-server(restart=3)         restarts from its newest checkpoint
//   20    slow(worker=1,factor=5,for=10)  its computations take longer
//   30    cut(worker=2,for=8)             its link carries nothing
//   40    delay(worker=0,by=2,for=10)     its messages take longer
//   50    duplicate(worker=0,after=1,for=10)  each gradient arrives twice
//   60    cut-up(worker=2,for=8)          the server gets nothing from it
//   60    cut-down(worker=2,for=8)        it gets nothing from the server
//   70    pause(for=20)                   the whole run stands still
//   80    stall-recorder(for=5)           no line can be written
//   90    fail-server(restart=3)          its life fails, as with a lost shard
//
// Instead of a file, random(7) or random(seed=7,faults=6,until=40) draws them;
// see apps/lab/simulation/fault_draw.hpp.

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
  stall_recorder,
  fail_server
};

inline constexpr size_t fault_kinds = 11;

/// Whether it affects one worker, not the whole run.
constexpr bool meets_worker(fault_kind x) {
  return x != fault_kind::crash_server && x != fault_kind::fail_server &&
         x != fault_kind::pause && x != fault_kind::stall_recorder;
}

/// "crash-server"
std::string_view to_string(fault_kind x);

/// Times are virtual seconds since the run began.
struct fault {
  double at = 0;
  fault_kind what = fault_kind::crash;
  uint32_t worker = 0; ///< The worker affected, if it affects one.
  /// How long it lasts, or until the restart after a crash; nothing: for good.
  std::optional<double> lasts;
  double by = 0; ///< slow: factor; delay, duplicate: s.

  bool operator==(const fault&) const = default;
};

/// `random(...)`: how many faults to draw, from which seed, up to what time.
struct random_faults {
  uint64_t seed = 1;
  uint32_t faults = 6;
  double until = 40;

  bool operator==(const random_faults&) const = default;
};

/// Reads one fault, "crash(worker=3,restart=4)". Throws `bad_value`.
fault parse_fault(double at, std::string_view text);

/// The text that `parse_fault` reads back.
std::string to_string(const fault& x);

/// Reads a text with one fault per line, for this number of workers, and sorts
/// the faults by time. `name` is how error lines call the text. Throws
/// `usage_error`, which names the line.
std::vector<fault> parse_faults(std::string_view text, const std::string& name,
                                uint32_t workers);

/// Reads a file. Throws `usage_error` also if it cannot be read.
std::vector<fault> read_faults(const std::filesystem::path& file,
                               uint32_t workers);

/// Reads the value of `--faults`; nothing when it names a file. Throws
/// `bad_value` for an invalid `random(...)`.
std::optional<random_faults> parse_random_faults(std::string_view text);

} // namespace troupe::config
