#pragma once
// A tape as a replay goes through it: what comes next, and whether the replayed
// server met and decided the same. Not thread-safe; a replay is one thread.

#include "actors/recording/tape_file.hpp"
#include "messages/ids.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace troupe::replay {

class script {
public:
  /// Throws as `recording::tape_reader` does.
  explicit script(const std::filesystem::path& tape);

  const proto::TapeBegin& begin() const { return reader_.begin(); }

  /// The run may stop earlier than on the tape.
  void allow_early_stop() { early_stop_allowed_ = true; }

  /// The event to act on; valid until `advance`.
  const proto::TapeEvent& current() const { return current_; }

  /// The versions whose scores are on the tape, as far as it can be read.
  const std::vector<version>& scored() const { return scored_; }

  /// The time of the one after it, ns; nothing at the end of the tape.
  std::optional<int64_t> next_time() const;

  /// Goes on to the next event. Throws `run_error` when the one behind it is
  /// damaged, and when the server took no notice of the one before.
  /// @pre next_time()
  void advance();

  /// Takes what the replayed server kept. Throws `run_error` that names the
  /// event and what differs.
  void check(const proto::TapeEvent& found);

  /// Nothing is compared from here on.
  void close() { closed_ = true; }

  bool closed() const { return closed_; }

  /// The replay stopped before the tape does.
  bool stopped_early() const { return stopped_early_; }

  /// The end of the run is on the tape, and the replayed one was compared.
  bool end_checked() const { return end_checked_; }

  /// Whether the last event on the tape is not whole.
  bool torn() const { return reader_.cut() != 0; }

  /// "runs/lenet-1/tape-1.pb: event 17: WHAT"
  std::string line(const std::string& what) const;

  /// What the server answered last when it refused something; for errors.
  std::string last_refusal;

private:
  void look_ahead();
  void compare(const proto::TapeEvent& found) const;
  bool stops_early(const proto::TapeEvent& found) const;
  void check_end(const proto::TapeEvent& found);

  recording::tape_reader reader_;
  std::vector<version> scored_;
  proto::TapeEvent current_;
  std::optional<proto::TapeEvent> next_;
  bool seen_ = true; ///< The server has met the current one.
  bool closed_ = false;
  bool early_stop_allowed_ = false;
  bool stopped_early_ = false;
  bool end_checked_ = false;
};

} // namespace troupe::replay
