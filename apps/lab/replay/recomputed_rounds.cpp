#include "apps/lab/replay/recomputed_rounds.hpp"

#include "actors/runtime/tensor_payload.hpp"
#include "actors/worker/local_round.hpp"
#include "actors/worker/report_sum.hpp"
#include "config/text/failure.hpp"

#include <utility>

namespace troupe::replay {

namespace {

constexpr size_t most_states = 3; ///< Of a worker.

} // namespace

recomputed_rounds::recomputed_rounds(const computing_parts& computing,
                                     const models::flat_layout& layout,
                                     worker_store states, version start)
  : parts_(computing), layout_(layout), states_(std::move(states)),
    start_(start) {
  // nop
}

gradient_report recomputed_rounds::compute(const recomputing::task& job,
                                           simulation::replica& network) {
  auto& steps = steps_of(job.who);
  auto state = state_of(job.who, job.inner_steps);
  if (job.goes_on)
    steps.go_on(state);
  else
    steps.begin(to_tensor(job.weights), state);
  auto merge = [&](uint64_t made) {
    if (job.goes_on && made == job.early_steps)
      steps.merge(steps.before(job.fragment), to_tensor(job.weights), made);
  };
  auto early_on = std::exchange(began_at_[job.who], job.computed_on).next();
  report_sum sum;
  at::Tensor gradient;
  for (uint64_t i = 0; i < job.from.size(); ++i) {
    merge(i);
    auto given = i == 0 && !job.goes_on;
    auto step = network.compute(
      job.from[i], given ? job.weights : to_payload(steps.weights()),
      given ? job.statistics : payload{});
    gradient = to_tensor(std::exchange(step.gradient, {}));
    auto on = i < job.early_steps ? early_on : job.computed_on;
    steps.step(gradient, inner_progress(parts_, job.from[i], on, i));
    sum.add(step);
  }
  merge(job.from.size());
  steps.finish(gradient, job.fragment);
  auto range = steps.range_of(job.fragment);
  auto& last = last_[job.who];
  last.push_back(steps.copy_state());
  if (last.size() > most_states)
    last.pop_front();
  auto out = sum.mean();
  out.gradient = to_payload(std::move(gradient)).part(range.first, range.count);
  return out;
}

models::local_steps& recomputed_rounds::steps_of(worker_id who) {
  const auto& training = parts_.settings.training;
  auto key = training.keeps_own_weights() ? who : worker_id{0};
  auto found = steps_.find(key);
  if (found == steps_.end())
    found = steps_.try_emplace(key, training, layout_).first;
  return found->second;
}

auto recomputed_rounds::state_of(worker_id who, uint64_t steps) -> numbers {
  auto& last = last_[who];
  if (steps == 0) { // A new optimiser: those before it are lost.
    last.clear();
    return nullptr;
  }
  for (auto one = last.rbegin(); one != last.rend(); ++one)
    if ((*one)->steps == steps)
      return *one;
  return state_at_start(who, steps);
}

auto recomputed_rounds::state_at_start(worker_id who, uint64_t steps) const
  -> numbers {
  auto path = carried_path(states_.folder, inner_optimizer_kind, start_, who);
  std::error_code error;
  if (std::filesystem::exists(path, error)) {
    auto out = inner_numbers_in({path, models::read_safetensors(path)});
    if (out->steps == steps)
      return out;
  }
  throw run_error("the state that the own optimizer of worker " +
                  to_string(who) + " had after " + std::to_string(steps) +
                  " steps is neither in the event log nor at " + path.string() +
                  ": a replay needs that file of the worker's run directory");
}

} // namespace troupe::replay
