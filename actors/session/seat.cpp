#include "actors/session/seat.hpp"

namespace troupe {

void request_seat(session_client_actor::pointer self,
                  connection_attempts& attempts, const participant& who,
                  const seat_request& by, const seat_outcomes& then) {
  auto seated = [&attempts, then](const std::optional<registration>& as) {
    attempts.succeeded();
    then.seated(as);
  };
  auto refused =
    attempts.in_this_one([then](const caf::error& why) { then.refused(why); });
  if (const auto* worker = std::get_if<worker_actor>(&who))
    self
      ->request(by.coordinator, by.patience, register_atom_v, by.wish, *worker)
      .then(
        attempts.in_this_one([seated](const registration& as) { seated(as); }),
        refused);
  else
    self
      ->request(by.coordinator, by.patience, register_atom_v,
                std::get<evaluator_actor>(who))
      .then(attempts.in_this_one([seated](life_number) { seated({}); }),
            refused);
}

void attach_participant(session_client_actor::pointer self,
                        const participant& who, const attachment& its) {
  if (const auto* worker = std::get_if<worker_actor>(&who))
    self->send(*worker, attach_atom_v, its.link, *its.as, its.way);
  else
    self->send(std::get<evaluator_actor>(who), attach_atom_v, its.link);
}

} // namespace troupe
