#include "actors/worker/local_round.hpp"

#include "actors/runtime/tensor_payload.hpp"
#include "config/text/failure.hpp"
#include "data/dataset.hpp"
#include "models/device/accelerator.hpp"
#include "models/optim/aggregate.hpp"

#include <utility>

namespace troupe {

namespace {

/// Samples of an epoch in the order that this lease is a range of.
uint64_t samples_of(const computing_parts& parts, const lease& from) {
  const auto& train =
    parts.own_data.empty() ? parts.data.train : parts.own_data.at(from.part);
  auto shares = parts.settings.data.sharding == config::sharding_kind::fixed
                  ? uint64_t{parts.settings.cluster.workers}
                  : 1;
  return (train->size() + shares - 1) / shares;
}

} // namespace

models::training_progress inner_progress(const computing_parts& parts,
                                         const lease& from, version began_at,
                                         uint64_t number) {
  auto all = static_cast<double>(samples_of(parts, from));
  return {static_cast<double>(from.epoch) +
            static_cast<double>(from.first) / all,
          began_at.value * parts.settings.training.local_steps.most + number};
}

local_round::local_round(const computing_parts& parts,
                         const models::flat_layout& layout,
                         inner_state_ptr state)
  : parts_(parts), state_(std::move(state)),
    steps_(parts.settings.training, layout) {
  // nop
}

void local_round::enter(compute_task& task) {
  auto anew = task.local->begins && !task.local->goes_on;
  if (anew || task.local->merges)
    first_ = task.weights;
  if (anew)
    return;
  if (task.local->merges)
    merge(task);
  task.weights = to_payload(steps_.weights());
  task.statistics = {}; // They are behind these weights.
}

// If they do not arrive, the round is cancelled when it is left.
void local_round::merge(const compute_task& task) {
  auto progress = first_.arriving();
  if (progress && !progress->wait_for(0, first_.shape().bytes()))
    return;
  auto where = models::device_named(parts_.settings.training.device);
  const auto& local = *task.local;
  steps_.merge(steps_.before(local.fragment), to_tensor(first_, where),
               local.number);
}

/// The state of the optimiser that a round begins with.
std::shared_ptr<const models::inner_numbers>
local_round::go_back_to(const push_id& after) {
  auto from = state_->go_back_to(after);
  before_ = from ? from->steps : 0;
  return from;
}

void local_round::leave(const compute_task& task, const at::Tensor& gradient,
                        gradient_report& report) {
  const auto& local = *task.local;
  report.gradient = {};
  if (report.cancelled)
    return;
  auto progress = first_.arriving();
  if (progress && !progress->wait_for(0, first_.shape().bytes())) {
    report.cancelled = true;
    return;
  }
  auto where = models::device_named(parts_.settings.training.device);
  if (local.begins && local.goes_on)
    steps_.go_on(go_back_to(local.after));
  else if (local.begins)
    steps_.begin(to_tensor(first_, where), go_back_to(local.after));
  if (task.batch)
    steps_.step(gradient, inner_progress(parts_, task.from, task.computed_on,
                                         local.number));
  if (!local.ends)
    return;
  auto made = steps_.finish(gradient, local.fragment);
  auto range = steps_.range_of(local.fragment);
  first_ = {};
  report.gradient = to_payload(gradient).part(range.first, range.count);
  if (report.gradient.device() != nullptr)
    report.gradient.know_finite(models::all_finite(made));
  report.inner_steps = before_;
  state_->keep(local.makes, steps_.copy_state(state_->take_spare()));
}

} // namespace troupe
