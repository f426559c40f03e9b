#pragma once
// The parts of a network that one shard owns, for one worker: computes them,
// and stands between the worker and the shard.
//
// The gradient of a lease gathers in a context here, never in a buffer that
// workers share. The worker's push, which has only the worker's own part of the
// gradient, gets the context's buffer in its place on its way to the shard. So
// for the shard it is a push like any other: the policy, leases, the push
// window, the event log and checkpoints see no difference.
//
// The answer to a push or pull brings a version of the weights. It is kept here
// until the push of the gradient that is computed on it, so an update between
// forward and backward does no harm, and the worker gets its own part of it.
//
// A context goes with its push, with a cancellation, with the worker, and with
// the run. An actor beside the shard, one for each worker; it ends with the
// shard, and whoever makes it ends it with the worker's link. docs/design/0027.

#include "actors/segments/module_roster.hpp"
#include "actors/segments/stage.hpp"
#include "config/text/settings.hpp"
#include "messages/interfaces.hpp"
#include "models/layout/flat_pool.hpp"
#include "models/layout/shard_cuts.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace troupe {

struct remote_module_parts {
  parameter_server_actor server; ///< The shard.
  /// What computes each segment of the network; null for those of others.
  std::vector<stage_actor> segments;
  /// The shard's elements of the flat weights. The last `own` of them are the
  /// worker's own: its parameters, and all running statistics.
  models::element_range range{};
  uint64_t own = 0;
  config::scalar_type dtype = config::scalar_type::float32;
  uint64_t most_samples = 0;                 ///< Of a lease.
  uint64_t most_elements = 0;                ///< Of an answer.
  payload_memory_ptr memory = heap_memory(); ///< For gradients.
  module_roster_ptr roster;                  ///< Of the server; or null.
};

class remote_module_state {
public:
  using pointer = module_host_actor::stateful_pointer<remote_module_state>;

  static constexpr const char* name = "troupe.remote-module";

  /// A worker has the context of its batch, and one of the batch before that is
  /// not closed yet, or of the next.
  static constexpr size_t most_contexts = 2;

  remote_module_state(pointer self, remote_module_parts parts);

  ~remote_module_state();

  remote_module_state(const remote_module_state&) = delete;
  remote_module_state& operator=(const remote_module_state&) = delete;

  module_host_actor::behavior_type make_behavior();

private:
  using weights_promise = caf::typed_response_promise<release_header, payload>;
  using weights_result = caf::result<release_header, payload>;
  using module_result = caf::result<module_answer>;

  struct context {
    version of;
    payload weights;
    at::Tensor gradient;
    cancel_ptr cancel;
    std::map<uint32_t, at::Tensor> statistics; ///< By segment that has begun.
    size_t finished = 0;                       ///< Segments.
  };

  // -- between the worker and the shard ---------------------------------------

  template <class... Ts>
  weights_result ask_shard(Ts&&... message);

  weights_result push(const push_header& header, const payload& own);
  weights_result pull(const pull_header& header);
  payload whole_of(const push_header& header, const payload& own);
  void pass_on(const release_header& header, const payload& weights,
               weights_promise to);
  void refuse(const caf::error& why, weights_promise to);

  // -- contexts ---------------------------------------------------------------

  module_result forward(const module_call& call);
  module_result backward(const module_call& call);
  module_result read(const context_part& place) const;
  caf::error open(const module_call& call);
  void close(lease_id which);
  void close_all();
  bool is_complete(const context& batch) const;
  const stage_actor* stage_of(const module_call& call) const;

  pointer self_;
  remote_module_parts parts_;
  models::flat_pool gradients_;
  size_t segments_ = 0; ///< That are computed here.
  payload weights_;     ///< Given to the worker last, as a whole.
  version version_;
  std::map<lease_id, context> contexts_;
  bool over_ = false; ///< Training is over.
};

} // namespace troupe
