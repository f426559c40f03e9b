#pragma once
// An event log as a replay goes through it: which event comes next, and whether
// the replayed server had the same inputs and made the same decisions.
//
// Shared by the replay driver and the event sink of the replayed server. Not
// thread-safe: a replay has only one thread.

#include "actors/log_files/event_log_file.hpp"
#include "messages/ids.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace troupe::replay {

class recorded_run {
public:
  /// Throws as `recording::event_log_reader` does.
  explicit recorded_run(const std::filesystem::path& event_log);

  const proto::LogBegin& begin() const { return reader_.begin(); }

  /// Allows the replay to stop earlier than the recorded run.
  void allow_early_stop() { early_stop_allowed_ = true; }

  /// The replay computes with other roundings: its weights need not be the
  /// run's, bit for bit.
  void allow_other_weights() { other_weights_allowed_ = true; }

  bool allows_other_weights() const { return other_weights_allowed_; }

  /// The current event; valid until `advance`.
  const proto::LogEvent& current() const { return current_; }

  /// The norm of the gradient that has arrived by the current event. Throws
  /// `run_error` if the event has none.
  double norm() const;

  /// The versions whose scores are in the readable part of the event log.
  const std::vector<version>& scored() const { return scored_; }

  /// The time of the next event, in ns; nothing at the end of the event log.
  std::optional<int64_t> next_time() const;

  /// Moves on to the next event. Throws `run_error` when the event after that
  /// is damaged, or when the server did not react to the current one.
  /// @pre next_time()
  void advance();

  /// Compares an event of the replayed server with the recorded one. Throws a
  /// `run_error` that names the event and the difference.
  void check(const proto::LogEvent& found);

  /// Stops the comparison.
  void close() { closed_ = true; }

  bool closed() const { return closed_; }

  /// Whether the replay stopped before the end of the event log.
  bool stopped_early() const { return stopped_early_; }

  /// Whether the event log contains the end of the run, and the replay was
  /// compared with it.
  bool end_checked() const { return end_checked_; }

  /// Why the run failed when its training was over, if it did.
  const std::optional<std::string>& failure() const { return failure_; }

  /// Whether the last event of the event log is incomplete.
  bool torn() const { return reader_.cut() != 0; }

  /// An error message, such as "<event log>: event 17: WHAT".
  std::string line(const std::string& text) const;

  /// The server's last answer to a request that it refused, for error messages.
  std::string last_refusal;

private:
  void look_ahead();
  void compare(const proto::LogEvent& found) const;
  bool stops_early(const proto::LogEvent& found) const;
  void check_end(const proto::LogEvent& found);

  recording::event_log_reader reader_;
  std::vector<version> scored_;
  proto::LogEvent current_;
  std::optional<proto::LogEvent> next_;
  bool seen_ = true; ///< The server has had the current event.
  bool closed_ = false;
  bool early_stop_allowed_ = false;
  bool other_weights_allowed_ = false;
  bool stopped_early_ = false;
  bool end_checked_ = false;
  std::optional<std::string> failure_;
};

} // namespace troupe::replay
