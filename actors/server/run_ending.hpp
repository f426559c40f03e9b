#pragma once
// How a run ends, stage by stage: the workers are told to stop, the last
// version is scored and saved, each within its time limit, and then the summary
// is written. A failure skips the scoring and the saving.
//
// A part of the parameter server's state. It only decides; the lead does the
// work. Not thread-safe.

#include "actors/server/lead.hpp"

#include <string>
#include <utility>

namespace troupe {

class run_ending {
public:
  explicit run_ending(lead& of) : lead_(of) {
    // nop
  }

  /// The run is complete or was stopped. Ignored when it is already ending.
  void begin(std::string status, const std::string& reason) {
    if (begun_)
      return;
    begun_ = true;
    status_ = std::move(status);
    lead_.stop_workers(reason);
    if (!closed_)
      lead_.finish_work();
    close_when_done();
  }

  /// The run cannot go on, but what it has is kept.
  void give_up(std::string line) {
    if (begun_)
      return;
    line_ = std::move(line);
    begin("stopped", line_);
  }

  /// Ends the run at once, without checkpoint and score: the failure may have
  /// spoilt them.
  void fail(std::string line) {
    if (closed_)
      return;
    status_ = "failed"; // The workers are not told that the run is over.
    if (!std::exchange(begun_, true))
      lead_.stop_workers(line);
    line_ = std::move(line);
    scored_ = true;
    saved_ = true;
    collected_ = true;
    lead_.give_up_saving();
    close_when_done();
  }

  /// The last score has arrived, or is not waited for any more.
  void scored() {
    scored_ = true;
    close_when_done();
  }

  /// The last checkpoint and the best weights are durable, or are not waited
  /// for any more.
  void saved() {
    saved_ = true;
    close_when_done();
  }

  /// Members wait for the last version: it must be collected for them.
  void collecting() { collected_ = false; }

  void collected() {
    collected_ = true;
    close_when_done();
  }

  /// The last score was the best, so the best weights are written again.
  void saving() { saved_ = false; }

  /// Even the summary cannot be written. The first error is kept.
  void fail_late(const std::string& line) {
    begun_ = true;
    status_ = "failed";
    if (line_.empty())
      line_ = line;
  }

  bool begun() const { return begun_; }
  bool is_saved() const { return saved_ && collected_; }
  bool is_closed() const { return closed_; } ///< The summary was asked for.
  bool has_failed() const { return status_ == "failed"; }

  /// completed | stopped | failed
  const std::string& status() const { return status_; }
  const std::string& line() const { return line_; } ///< The error, or empty.

private:
  void close_when_done() {
    if (begun_ && scored_ && saved_ && collected_ &&
        !std::exchange(closed_, true))
      lead_.close_run();
  }

  lead& lead_;
  std::string status_;
  std::string line_;
  bool begun_ = false;
  bool scored_ = false;
  bool saved_ = false;
  bool collected_ = true;
  bool closed_ = false;
};

} // namespace troupe
