#pragma once
// A further shard of the parameter server: a range of the weights, the
// optimiser's state for it, and the gradients that the lead has not yet decided
// on. It checks and computes; who waits, what is applied and when is the lead's
// business.
//
// Spawned on a thread of its own, since it computes.

#include "actors/shard_model.hpp"
#include "messages/interfaces.hpp"

#include <map>
#include <memory>

namespace troupe {

struct parameter_shard_parts {
  std::shared_ptr<shard_model> model;
  int threads = 1; ///< Intra-op threads of this actor's thread.
};

class parameter_shard_state {
public:
  using pointer = shard_actor::stateful_pointer<parameter_shard_state>;

  static constexpr const char* name = "troupe.parameter-shard";

  parameter_shard_state(pointer self, parameter_shard_parts parts);

  shard_actor::behavior_type make_behavior();

private:
  bool take(const push_id& id, const payload& gradient);
  caf::result<void> carry_out(const shard_order& what);
  void apply(const shard_order& what);

  parameter_shard_parts parts_;
  std::map<push_id, payload> held_;
  uint64_t orders_ = 0; ///< Carried out so far.
};

} // namespace troupe
