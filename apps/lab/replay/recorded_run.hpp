#pragma once
// An event log as a replay goes through it: what comes next, and whether the
// replayed server met and decided the same. Not thread-safe; a replay is one
// thread.

#include "actors/recording/event_log_file.hpp"
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

  /// The run may stop earlier than on the event log.
  void allow_early_stop() { early_stop_allowed_ = true; }

  /// The event to act on; valid until `advance`.
  const proto::LogEvent& current() const { return current_; }

  /// The versions whose scores are on the event log, as far as it can be read.
  const std::vector<version>& scored() const { return scored_; }

  /// The time of the one after it, ns; nothing at the end of the event log.
  std::optional<int64_t> next_time() const;

  /// Goes on to the next event. Throws `run_error` when the one behind it is
  /// damaged, and when the server took no notice of the one before.
  /// @pre next_time()
  void advance();

  /// Takes what the replayed server kept. Throws `run_error` that names the
  /// event and what differs.
  void check(const proto::LogEvent& found);

  /// Nothing is compared from here on.
  void close() { closed_ = true; }

  bool closed() const { return closed_; }

  /// The replay stopped before the event log does.
  bool stopped_early() const { return stopped_early_; }

  /// The end of the run is on the event log, and the replayed one was compared.
  bool end_checked() const { return end_checked_; }

  /// Whether the last event on the event log is not whole.
  bool torn() const { return reader_.cut() != 0; }

  /// "runs/lenet-1/tape-1.pb: event 17: WHAT"
  std::string line(const std::string& what) const;

  /// What the server answered last when it refused something; for errors.
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
  bool seen_ = true; ///< The server has met the current one.
  bool closed_ = false;
  bool early_stop_allowed_ = false;
  bool stopped_early_ = false;
  bool end_checked_ = false;
};

} // namespace troupe::replay
