#pragma once
// The compute actor of a worker whose program trains with a loop of its own
// (actors/own_loop/training.hpp): hands batches to the loop's thread, and the
// loop's gradients to the worker. Between the two a chain computes the network;
// the loop has the scores, and gives it the gradient of its loss.
//
// The loop's thread is a blocking actor that this one starts. It asks; this
// actor answers and never blocks. It ends when loop and worker have ended.

#include "actors/own_loop/training.hpp"
#include "actors/segments/segment_chain.hpp"
#include "messages/interfaces.hpp"
#include "models/layout/shard_cuts.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

struct training_loop_parts {
  remote::training_function train;
  /// Makes the actor that computes the network, with this loss.
  std::function<compute_actor(const loss_actor&)> make_chain;
  std::vector<remote::remote_parameter> parameters; ///< Of the network.
  models::element_range own;  ///< The worker's own elements of the weights.
  uint64_t most_elements = 0; ///< That are read from their owner at a time.
  config::scalar_type dtype = config::scalar_type::float32;
  int threads = 1; ///< Intra-op threads of the loop.
};

class training_loop_state {
public:
  using pointer = training_loop_actor::stateful_pointer<training_loop_state>;

  static constexpr const char* name = "troupe.training-loop";

  training_loop_state(pointer self, const training_loop_parts& parts);

  training_loop_actor::behavior_type make_behavior();

private:
  using module_result = caf::result<module_answer>;
  using module_promise = caf::typed_response_promise<module_answer>;

  /// A batch between the worker's request and the answer to it.
  struct job {
    compute_task task;
    caf::typed_response_promise<gradient_report> asks;
    bool taken = false;       ///< By the loop.
    bool computing = false;   ///< The chain is at work.
    bool over = false;        ///< Cancelled.
    module_promise waiting{}; ///< The loop, for forward or backward.
    module_promise loss{};    ///< The chain, for the gradient of the loss.
    std::optional<gradient_report> report{}; ///< After backward.
  };

  caf::result<gradient_report> compute(const compute_task& task);
  caf::result<compute_task> next();
  void offer();
  module_result forward(const module_call& call);
  module_result backward(const module_call& call);
  module_result score(const module_call& call);
  module_result read(const context_part& place);
  module_result push(lease_id which, double loss);
  void computed(const gradient_report& report);
  void cancel();
  void fail(const caf::error& why);
  void end(const run_end& how);
  void leave_if_over();
  /// Whether a call of the loop is about the batch at hand.
  bool is_open(lease_id which) const;

  pointer self_;
  models::element_range own_;
  compute_actor chain_;
  caf::actor loop_;
  caf::actor_addr worker_;
  std::optional<job> job_;
  caf::typed_response_promise<compute_task> waits_; ///< The loop, for a batch.
  std::optional<run_end> ended_;
  bool loop_ended_ = false;
  caf::error broken_; ///< Why the loop ended before the run, if it did.
};

} // namespace troupe
