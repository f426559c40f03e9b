#pragma once
// Stands in the place of a worker's compute actor and loader where another
// process computes (`--compute external`): hands leases and weights to that
// process, and takes its gradients. Weights and gradients lie in memory that
// both have mapped; a frame only says where.
//
// The process answers each frame of weights once, with a gradient or without
// (`returned`). Until then the blocks that the frame named are its own, and its
// time runs; with local steps it begins anew with each of them.

#include "actors/user_process/user_process_state.hpp"
#include "data/sampling/permutation.hpp"
#include "models/layout/flat_pool.hpp"
#include "models/layout/fragments.hpp"

#include <deque>
#include <map>
#include <optional>

namespace troupe {

struct agent_parts : user_process_parts {
  data::epoch_order order; ///< By which leases become samples.
  /// For the host's copies of gradients that lie on a GPU.
  payload_memory_ptr copies = heap_memory();
};

class agent_state : public user_process_state {
public:
  using pointer = agent_actor::stateful_pointer<agent_state>;

  static constexpr const char* name = "troupe.agent";

  agent_state(pointer self, agent_parts parts);

  agent_actor::behavior_type make_behavior();

private:
  /// A lease that the process knows by a number, which never comes twice: a
  /// server that was started again counts its leases anew.
  struct told_lease {
    lease what;
    uint64_t number = 0;
    bool refused = false; ///< The process has given it back.
  };

  /// A gradient that the process is asked for.
  struct job {
    told_lease of;
    caf::typed_response_promise<gradient_report> asks;
    at::Tensor gradient;
    run_clock clock;
    models::element_range gives; ///< Of the block, what is pushed.
  };

  /// Memory that the process may use until it has answered.
  struct blocks {
    payload weights;
    at::Tensor gradient;
    run_clock since; ///< Or since the last local step.
    progress_ptr progress{};
  };

  caf::result<loaded_batch> load(const lease& work);
  caf::result<gradient_report> begin(compute_task task);
  void cancel();
  void handle_frame(external::process_frame_kind kind, uint64_t number,
                    const std::string& body);
  void take_gradient(uint64_t from, const std::string& body);
  uint64_t take_out(const std::vector<uint64_t>& numbers,
                    std::vector<lease_id>& also);
  void give_back(uint64_t number);
  void note_step(uint64_t number);
  bool release_blocks(uint64_t number);
  uint64_t steps_of(const compute_task& task) const;
  void withdraw_first();
  void pause();
  void resume();
  void finish(caf::expected<gradient_report> report);
  gradient_report without_gradient(const job& of) const;
  void check_time();
  void fail_requests() override;

  pointer self_;
  data::epoch_order order_;
  models::fragments cuts_;
  uint64_t count_; ///< Elements of a block.
  models::flat_pool gradients_;
  std::shared_ptr<payload_pool> copies_; ///< Unused without a GPU.
  std::deque<told_lease> waiting_; ///< Told to the process, and not begun.
  uint64_t numbers_ = 0;           ///< The last number of a lease.
  uint64_t sent_ = 0; ///< The lease's number of the gradient sent last.
  std::optional<job> job_;
  std::map<uint64_t, blocks> unanswered_; ///< By the number of the lease.
  bool paused_ = false; ///< The process has left its loop, for now.
};

/// Spawns the agent and the reader of its frames.
agent_actor make_agent(caf::actor_system& system, agent_parts parts);

} // namespace troupe
