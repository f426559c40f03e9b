#pragma once
// The coordinator: who is in the cluster. Gives ranks and incarnations, starts
// the training when the cluster is complete, notices who died or fell silent,
// and sends everybody home at the end.

#include "actors/core/membership.hpp"
#include "actors/core/part_homes.hpp"
#include "actors/runtime/run_clock.hpp"
#include "messages/interfaces.hpp"

#include <map>
#include <optional>
#include <vector>

namespace troupe {

struct coordinator_parts {
  cores::membership_rules rules;
  /// s of silence until a member is gone; 0: as long as its actor lives.
  double liveness_timeout = 15;
  incarnation server; ///< The life of the parameter server.
  lead_actor lead;
  supervisor_actor supervisor;
  /// Where workers have files of their own: which rank has which.
  std::optional<cores::part_homes> homes{};
};

class coordinator_state {
public:
  using pointer = coordinator_actor::stateful_pointer<coordinator_state>;

  static constexpr const char* name = "troupe.coordinator";

  coordinator_state(pointer self, coordinator_parts parts);

  coordinator_actor::behavior_type make_behavior();

private:
  struct worker {
    worker_actor handle;
    incarnation life;
  };

  caf::result<registration> admit(const registration_request& wish,
                                  const worker_actor& who);
  caf::result<registration> admit_to(std::optional<worker_id> rank,
                                     const registration_request& wish,
                                     const worker_actor& who);
  incarnation admit(const evaluator_actor& who);
  void give_back_seat_of(const worker_actor& who);
  void leave(worker_id who, incarnation life, const std::string& reason);
  void expel(worker_id who, incarnation life, const std::string& reason);
  void lost(const caf::actor_addr& who, const caf::error& why);
  void start_if_due();
  void tick();
  void ping();
  void send_workers_home();
  void close(const run_end& how);
  void leave_if_alone();
  double tick_interval() const;
  double now() const;

  pointer self_;
  coordinator_parts parts_;
  run_clock clock_;
  cores::membership membership_;
  std::map<worker_id, worker> workers_;
  std::map<caf::actor_addr, worker_id> ranks_; ///< Of the same.
  std::vector<worker_id> gathered_; ///< In the cluster before training starts.
  std::vector<evaluator_actor> evaluators_;
  double tick_due_ = 0;          ///< When the next tick is to come.
  bool ending_ = false;          ///< Workers have been sent home.
  std::optional<run_end> ended_; ///< Evaluators have been sent home.
};

} // namespace troupe
