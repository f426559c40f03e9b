#pragma once
// The first failure of a run: who failed, when, and what was said last. See
// docs/design/0042-first-failure.md. Pure, except for `read_failures`.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::recording {

/// A process that has failed.
struct failed_process {
  std::string role; ///< ps | worker | evaluator
  std::optional<uint32_t> rank{};
  std::string host{};       ///< Empty: not known.
  std::optional<int> pid{}; ///< Not known of a worker of this process.
  double time = 0;          ///< s; whose clock, says who has this value.
  std::string what{};       ///< For people, one line.
  /// The last ones that it printed, or the stack of the user's program.
  std::vector<std::string> lines{};

  bool operator==(const failed_process&) const = default;
};

// Why a worker leaves that has not failed.
inline constexpr std::string_view worker_ended = "it ended";
inline constexpr std::string_view worker_pauses = "its loop was left";
inline constexpr std::string_view worker_changes_path = "its link broke";

/// Whether a worker that leaves for this reason has failed.
bool is_failure(std::string_view reason);

/// Why a worker has left: one line, and what it said last.
struct departure_reason {
  std::string what;
  std::vector<std::string> lines{};
};

/// As the text of a message, in which the reason and its lines are one below
/// the other.
std::string to_text(const departure_reason& reason);

/// Reads such a text of another node: a bounded number of lines, without
/// control characters.
departure_reason read_reason(std::string_view text);

/// One JSON object, in one line without its line feed.
std::string to_json(const failed_process& one);

/// Names the file to which a launch writes such lines, for its servers; times
/// there are s since 1970.
inline constexpr const char* failures_variable = "TROUPE_LAUNCH_FAILURES";

/// The objects in the lines of a file; none if it cannot be read.
std::vector<failed_process> read_failures(const std::filesystem::path& from);

/// The first failure, for the summary.
/// @param seen The first one that the server has seen.
/// @param launched What a launch saw of its processes, in their order and on
/// the same clock: it knows what they printed, and of those that never joined.
std::optional<failed_process>
first_failure(const std::optional<failed_process>& seen,
              const std::vector<failed_process>& launched);

} // namespace troupe::recording
