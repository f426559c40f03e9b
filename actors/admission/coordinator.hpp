#pragma once
// The coordinator keeps track of who is in the cluster. It gives ranks and
// lives to workers, starts the training when the cluster is complete,
// notices workers that died or fell silent, and tells everybody when the run
// ends.
//
// An actor beside the parameter server, in the same process.

#include "actors/core/expected_workers.hpp"
#include "actors/core/membership.hpp"
#include "actors/core/part_assignment.hpp"
#include "actors/core/pause_watch.hpp"
#include "actors/runtime/run_clock.hpp"
#include "messages/interfaces.hpp"

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

struct coordinator_parts {
  cores::membership_rules rules;
  /// Seconds of silence after which a member counts as lost; 0: a member counts
  /// as alive as long as its actor lives.
  double liveness_timeout = 15;
  life_number server; ///< The life of the parameter server.
  lead_actor lead;
  supervisor_actor supervisor;
  /// Where workers have files of their own: which rank has which data.
  std::optional<cores::part_assignment> assignment{};
  /// Whether the nodes outlive this life of the server: then they are not told
  /// of its end when it has failed, and wait for the next one.
  bool outlived = false;
  /// Whether a worker that hangs is asked for the stacks of its program first.
  bool asks_for_stacks = false;
  /// Peers, which give a run up when none of their workers may come any more;
  /// 0: there are none.
  uint32_t peers = 0;
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
    life_number life;
    bool awaits_score = false;
  };

  /// Connected, and without a place.
  struct paused_one {
    worker_actor handle;
    std::optional<worker_id> rank; ///< That it had.
  };

  /// What the run ends with.
  struct last_one {
    version what;
    std::vector<push_id> applied;
    payload weights;
  };

  caf::result<registration> admit(const registration_request& wish,
                                  const worker_actor& who);
  caf::result<registration> admit_to(std::optional<worker_id> rank,
                                     const registration_request& wish,
                                     const worker_actor& who);
  caf::error refusal(cores::turned_away why,
                     std::optional<worker_id> rank) const;
  life_number admit(const evaluator_actor& who);
  std::optional<worker_id> give_back_seat_of(const worker_actor& who,
                                             const std::string& reason);
  void pause(const worker_actor& who);
  void leave(worker_id who, life_number life, const std::string& reason,
             cores::departure how = cores::departure::lost);
  void leave_hung(worker_id who, life_number life, const std::string& reason);
  void expel(worker_id who, life_number life, const std::string& reason);
  void fail_paused(worker_id who, life_number life, const std::string& reason);
  void lost(const caf::actor_addr& who, const caf::error& why);
  void start_if_due();
  void look_for_members(const std::string& last);
  bool has_nobody() const;
  void give_up(const std::string& why);
  void tick();
  void ping();
  void stop_workers();
  void take_last(last_one last);
  last_version fetch_last();
  void close(const run_end& how);
  void end_grace();
  void leave_if_alone();
  double tick_interval() const;
  double now() const;

  pointer self_;
  coordinator_parts parts_;
  run_clock clock_;
  cores::membership membership_;
  std::map<worker_id, worker> workers_;
  std::map<caf::actor_addr, worker_id> ranks_; ///< By address.
  std::vector<worker_id> gathered_; ///< Joined before training starts.
  std::vector<evaluator_actor> evaluators_;
  std::vector<paused_one> paused_;
  cores::expected_workers expected_;
  cores::pause_watch pauses_;
  /// What the run ends with, and who waits for it.
  std::optional<last_one> last_;
  std::vector<
    caf::typed_response_promise<version, std::vector<push_id>, payload>>
    fetching_;
  double leave_by_ = 0;          ///< When members are no longer waited for.
  bool ending_ = false;          ///< Workers were told to stop.
  std::optional<run_end> ended_; ///< Evaluators were told, too.
};

} // namespace troupe
