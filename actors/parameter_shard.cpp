#include "actors/parameter_shard.hpp"

#include "actors/shard_order.hpp"
#include "config/one_line.hpp"

#include <ATen/Parallel.h>

#include <exception>
#include <utility>

namespace troupe {

parameter_shard_state::parameter_shard_state(pointer,
                                             parameter_shard_parts parts)
  : parts_(std::move(parts)) {
  // nop
}

shard_actor::behavior_type parameter_shard_state::make_behavior() {
  at::set_num_threads(parts_.threads);
  return {
    [this](push_atom, const push_id& id, const payload& gradient) {
      return take(id, gradient);
    },
    [this](order_atom, const shard_order_ptr& what) {
      return carry_out(*what);
    },
  };
}

bool parameter_shard_state::take(const push_id& id, const payload& gradient) {
  held_.insert_or_assign(id, gradient);
  return parts_.model->sound(gradient);
}

// Whatever is missing shows before anything has changed.
caf::result<void>
parameter_shard_state::carry_out(const shard_order& what) try {
  if (what.number != orders_ + 1)
    return caf::make_error(errc::protocol_violation,
                           "order " + std::to_string(what.number) +
                             " came after order " + std::to_string(orders_));
  orders_ = what.number;
  for (const auto& id : what.drop)
    held_.erase(id);
  if (what.update)
    apply(what);
  if (!what.save.empty())
    parts_.model->save(what.save);
  return caf::unit;
} catch (const std::exception& err) {
  return caf::make_error(errc::failed, one_line(err));
}

void parameter_shard_state::apply(const shard_order& what) {
  const auto& step = *what.update;
  std::vector<payload> gradients;
  for (const auto& id : step.gradients)
    gradients.push_back(held_.at(id));
  parts_.model->apply(step.next, step.current, gradients, step.samples, step.lr,
                      step.scale);
  for (const auto& id : step.gradients)
    held_.erase(id);
}

} // namespace troupe
