#pragma once
// What all session clients share: the messages that they know, and a series of
// attempts to get a place in the cluster.
//
// The base of the states of session clients; each is owned by its actor, on
// whose thread everything runs.

#include "actors/runtime/run_clock.hpp"
#include "actors/session/connection_attempts.hpp"
#include "messages/interfaces.hpp"

#include <memory>
#include <string>

namespace troupe {

class error_feedback;

class session_client_state {
public:
  virtual ~session_client_state() = default;

  session_client_state(const session_client_state&) = delete;
  session_client_state& operator=(const session_client_state&) = delete;

  session_client_actor::behavior_type make_behavior();

protected:
  static constexpr const char* connection_lost = "the connection is lost";

  session_client_state(session_client_actor::pointer self,
                       connection_attempts attempts);

  virtual void start() { connect(); }

  /// Begins an attempt.
  virtual void connect() = 0;

  /// The place is lost, but perhaps not the connection.
  virtual void register_again();

  /// An actor that the client monitors is gone.
  virtual void note_down(const caf::down_msg& down) = 0;

  /// Drops what the attempt or the place has brought.
  virtual void drop_links() = 0;

  /// The attempt has failed, or the place was lost: tries again after a while,
  /// or gives up.
  virtual void retry(const std::string& why) = 0;

  /// The place is lost.
  virtual void lost() = 0;

  virtual void pause() {
    // nop
  }

  virtual void resume() {
    // nop
  }

  virtual last_version fetch_last(const payload_shape& shape);

  /// The client's worker, evaluator or shard says that its run is over.
  virtual void note_end(const run_end& how) { end(how); }

  virtual void stop() { end({}); }

  /// The same within so many seconds.
  virtual void stop_within(double) { stop(); }

  /// Something unforeseen has happened.
  virtual void fail(const std::string& line) { end({1, line}); }

  virtual void end(const run_end& how) = 0;

  /// Makes the next attempt after so many seconds.
  void connect_after(double delay);

  session_client_actor::pointer self_;
  run_clock clock_;
  connection_attempts attempts_;
  std::shared_ptr<error_feedback> feedback_; ///< Of compression; or null.
};

} // namespace troupe
