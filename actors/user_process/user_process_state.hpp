#pragma once
// What the actors that stand for a process of the user's have in common,
// whether it computes gradients or scores: its line, the memory that both have
// mapped, and how it is given up.
//
// The base of the states of such actors; on their actor's thread.

#include "actors/runtime/run_clock.hpp"
#include "actors/runtime/spawning.hpp"
#include "actors/user_process/frame_reader.hpp"
#include "actors/user_process/shared_blocks.hpp"
#include "config/text/settings.hpp"
#include "messages/interfaces.hpp"
#include "models/layout/flat_layout.hpp"

#include <memory>
#include <string>
#include <utility>

namespace troupe {

struct user_process_parts {
  config::settings settings; ///< Of the worker or evaluator that has joined.
  models::flat_layout layout;
  payload frozen; ///< Weights that are not trained, if any.
  external::shared_places memory;
  external::process_line_ptr line;
  session_client_actor session; ///< Of the worker or evaluator.
};

class user_process_state {
public:
  virtual ~user_process_state() = default;

  user_process_state(const user_process_state&) = delete;
  user_process_state& operator=(const user_process_state&) = delete;

protected:
  user_process_state(caf::scheduled_actor* self, user_process_parts parts);

  /// Answers all that wait for the process with `lost_`.
  virtual void fail_requests() = 0;

  /// Gives the process up, and ends the session, the first time.
  void lose(const caf::error& why);

  /// Gives the process up, since it broke the rules. @param deed "sent ..."
  void lose_over(const std::string& deed);

  /// Gives the process up, since it says that it has failed. @param body The
  /// frame's, whose text goes to the log; its last line says why.
  void lose_failed(const std::string& body);

  /// Gives the process up, since it sent a frame that nobody knows.
  void refuse_kind(external::process_frame_kind kind);

  /// Gives the process up, since it has not done this in time.
  void lose_late(const std::string& deed);

  /// Whether the process has had longer for an answer than it may.
  bool is_late(const run_clock& since) const;

  /// The process, for users.
  std::string who() const;

  user_process_parts process_;
  external::shared_blocks blocks_;
  caf::error lost_; ///< Why the process is gone, if it is.

private:
  caf::scheduled_actor* actor_;
};

/// Spawns an actor that stands for a process, and the reader of its frames.
template <class Handle, class State, class Parts>
Handle spawn_for_process(caf::actor_system& system, Parts parts) {
  auto line = parts.line;
  auto out =
    spawn<Handle, State>(system, placement::scheduled, std::move(parts));
  read_frames(system, std::move(line), out);
  return out;
}

} // namespace troupe
