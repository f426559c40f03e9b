#pragma once
// How a participant gets its seat: its place among the members of the cluster,
// at whose server it pulls and pushes.
//
// Functions that session clients call in their own actor; they return at once,
// and the answer arrives as a callback on the same actor.

#include "actors/session/connection_attempts.hpp"
#include "messages/interfaces.hpp"

#include <functional>
#include <optional>
#include <variant>

namespace troupe {

/// The actor that a session client finds a seat for.
using participant = std::variant<worker_actor, evaluator_actor>;

/// Sends the participant a message that workers and evaluators know.
template <class Self, class... Ts>
void tell(Self* self, const participant& whom, const Ts&... message) {
  std::visit([&](const auto& who) { self->send(who, message...); }, whom);
}

struct seat_request {
  coordinator_actor coordinator;
  registration_request wish{}; ///< Of a worker.
  caf::timespan patience = caf::infinite;
};

/// The possible outcomes; one of them is called, if the attempt still counts
/// then.
struct seat_outcomes {
  /// The attempt has succeeded; an evaluator has no registration.
  std::function<void(const std::optional<registration>&)> seated;
  std::function<void(const caf::error&)> refused;
};

/// Asks for a seat in the current attempt.
/// @param who The participant, as the server sees it.
void request_seat(session_client_actor::pointer self,
                  connection_attempts& attempts, const participant& who,
                  const seat_request& by, const seat_outcomes& then);

/// What a participant needs to know of its seat.
struct attachment {
  parameter_server_actor link; ///< To its server.
  std::optional<registration> as;
  gradient_way way; ///< Of a worker's gradients.
};

/// Lets the participant begin.
void attach_participant(session_client_actor::pointer self,
                        const participant& who, const attachment& its);

} // namespace troupe
