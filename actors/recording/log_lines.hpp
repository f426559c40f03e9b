#pragma once
// The one place where the lines are made that a process prints: as they are, or
// as JSON objects for programs that collect logs (`--log-format json`). See
// "Logs" in docs/operating.md.
//
// `log_lines` is thread-safe; all else is pure.

#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::recording {

/// Who prints.
struct log_origin {
  std::string node; ///< As `launch` calls it: "worker-1", "ps".
  std::string role;
  std::optional<uint32_t> rank{};
  std::optional<uint64_t> life{};
  /// Empty under the virtual clock, whose lines do not depend on the process:
  /// then these two are left out.
  std::string host{};
  int pid = 0; ///< 0: not known, on another machine; then left out, too.
};

/// The name of a node: of its role, and of its rank if it has one.
std::string name_of_node(std::string_view role, std::optional<uint32_t> rank);

/// This process, in a role. @param named Whether its rank is in its name.
log_origin origin_of_process(std::string role, std::optional<uint32_t> rank,
                             bool named = true);

/// "info", "warning" or "error", by how the line begins.
std::string_view level_of(std::string_view line);

/// s since 1970.
double time_of_day();

/// The JSON object of a line, in one line without its line feed.
/// @param time s since 1970, or of a virtual clock.
std::string json_line(const log_origin& who, double time,
                      std::string_view line);

/// The line in such an object; nothing for any other text.
std::optional<std::string> line_in(std::string_view json);

/// How this process makes its lines: plain, until something else is said.
class log_lines {
public:
  using clock = std::function<double()>;

  static log_lines& of_process();

  /// From now on lines are JSON objects.
  void use_json(log_origin who, clock time = time_of_day);

  bool is_json() const;

  /// This node has got its place, or a new life in it. Nothing stays as it was.
  void seated(std::optional<uint32_t> rank, std::optional<uint64_t> life);

  /// Takes the time from another clock; returns the one before.
  clock take_time_from(clock time);

  /// What is written for a line: with its line feed.
  std::string make(std::string_view line);

  /// The last lines that were made, the oldest first.
  std::vector<std::string> last() const;

private:
  mutable std::mutex mutex_;
  std::optional<log_origin> who_; ///< Nothing: lines are plain.
  clock time_ = time_of_day;
  std::deque<std::string> last_;
};

} // namespace troupe::recording
