#include "actors/own_loop/training_loop.hpp"

#include "actors/own_loop/server_link.hpp"
#include "actors/runtime/run_is_over.hpp"
#include "actors/segments/activations.hpp"
#include "data/dataset.hpp"

#include <memory>
#include <utility>

namespace troupe {

namespace {

caf::error wrong_order(std::string reason) {
  return caf::make_error(errc::failed, std::move(reason));
}

module_answer no_longer_wanted() {
  return {.cancelled = true};
}

} // namespace

training_loop_state::training_loop_state(pointer self,
                                         const training_loop_parts& parts)
  : self_(self), own_(parts.own),
    chain_(parts.make_chain(loss_actor{training_loop_actor{self}})),
    loop_(remote::start(self->system(), training_loop_actor{self}, parts)) {
  // nop
}

training_loop_actor::behavior_type training_loop_state::make_behavior() {
  self_->monitor(loop_);
  self_->set_down_handler([this](const caf::down_msg& down) {
    if (down.source == worker_)
      return end({});
    loop_ended_ = true;
    leave_if_over();
  });
  return {
    // The worker.
    [this](compute_atom, const compute_task& task) { return compute(task); },
    [this](cancel_atom) { cancel(); },
    [this](ended_atom, const run_end& how) { end(how); },
    // The loop.
    [this](load_atom) { return next(); },
    [this](forward_atom, const module_call& call) { return forward(call); },
    [this](backward_atom, const module_call& call) { return backward(call); },
    [this](cancel_atom, lease_id which) {
      if (is_open(which))
        cancel();
    },
    [this](fetch_atom, const context_part& place) { return read(place); },
    [this](push_atom, lease_id which, double loss) {
      return push(which, loss);
    },
    [this](evaluate_atom) { return ended_.value_or(run_end{}).accuracy.value; },
    [this](refuse_atom, const std::string& why) {
      broken_ = caf::make_error(errc::failed, why);
      if (job_)
        fail(broken_);
    },
    // The chain.
    [this](score_atom, const module_call& call) { return score(call); },
  };
}

// -- the worker ---------------------------------------------------------------

caf::result<gradient_report>
training_loop_state::compute(const compute_task& task) {
  if (broken_)
    return broken_;
  if (!worker_) {
    worker_ = caf::actor_cast<caf::actor_addr>(self_->current_sender());
    self_->monitor(worker_);
  }
  job_ = job{task, self_->make_response_promise<gradient_report>()};
  auto asks = job_->asks;
  offer();
  return asks;
}

// The worker hears of the cancellation when the chain, which has one batch at a
// time, is free for the next.
void training_loop_state::cancel() {
  if (!job_ || job_->over)
    return;
  job_->over = true;
  job_->task.cancel->store(true);
  if (job_->waiting.pending())
    job_->waiting.deliver(no_longer_wanted());
  if (!job_->computing)
    return computed({});
  self_->send(chain_, cancel_atom_v);
  if (job_->loss.pending())
    job_->loss.deliver(no_longer_wanted());
}

void training_loop_state::fail(const caf::error& why) {
  auto failed = *std::exchange(job_, std::nullopt);
  failed.task.cancel->store(true);
  if (failed.loss.pending())
    failed.loss.deliver(no_longer_wanted());
  if (failed.waiting.pending())
    failed.waiting.deliver(no_longer_wanted());
  failed.asks.deliver(why);
}

void training_loop_state::end(const run_end& how) {
  if (ended_)
    return;
  ended_ = how;
  if (job_)
    fail(run_is_over());
  if (waits_.pending())
    waits_.deliver(run_is_over());
  leave_if_over();
}

// This actor stays until both have ended: the worker has to hear of a loop that
// fails, and the loop of the accuracy.
void training_loop_state::leave_if_over() {
  if (!ended_ || !loop_ended_)
    return;
  self_->send(chain_, ended_atom_v, *ended_);
  self_->quit();
}

// -- the loop -----------------------------------------------------------------

caf::result<compute_task> training_loop_state::next() {
  if (ended_)
    return run_is_over();
  waits_ = self_->make_response_promise<compute_task>();
  auto out = waits_;
  offer();
  return out;
}

void training_loop_state::offer() {
  if (!waits_.pending() || !job_ || job_->taken || job_->over)
    return;
  job_->taken = true;
  auto shown = job_->task;
  shown.weights = {}; // So that the server may step in place.
  waits_.deliver(std::move(shown));
}

auto training_loop_state::forward(const module_call& call) -> module_result {
  if (!is_open(call.from.id))
    return no_longer_wanted();
  auto samples = std::make_shared<data::batch>(*job_->task.batch);
  samples->inputs = to_tensor(call.inputs);
  auto task = job_->task;
  task.batch = std::move(samples);
  job_->computing = true;
  job_->waiting = self_->make_response_promise<module_answer>();
  self_->request(chain_, caf::infinite, compute_atom_v, std::move(task))
    .then([this](const gradient_report& report) { computed(report); },
          [this](const caf::error& why) {
            if (job_)
              fail(why);
          });
  return job_->waiting;
}

auto training_loop_state::backward(const module_call& call) -> module_result {
  if (!is_open(call.from.id))
    return no_longer_wanted();
  if (!job_->loss.pending())
    return wrong_order("backward before forward");
  job_->waiting = self_->make_response_promise<module_answer>();
  auto out = job_->waiting;
  job_->loss.deliver(module_answer{.outputs = call.inputs});
  return out;
}

auto training_loop_state::push(lease_id which, double loss) -> module_result {
  if (!is_open(which))
    return no_longer_wanted();
  if (!job_->report)
    return wrong_order("a step before backward");
  auto done = *std::exchange(job_, std::nullopt);
  done.task = {};
  done.report->loss = loss;
  done.asks.deliver(std::move(*done.report));
  return module_answer{};
}

auto training_loop_state::read(const context_part& place) -> module_result {
  if (!is_open(place.from))
    return no_longer_wanted();
  if (place.first < own_.first)
    return self_->delegate(
      caf::actor_cast<readable_module_actor>(job_->task.link), fetch_atom_v,
      place);
  if (place.gradient && !job_->report)
    return wrong_order("gradients before backward");
  const auto& own =
    place.gradient ? job_->report->gradient : job_->task.weights;
  return module_answer{
    .outputs = {own.part(place.first - own_.first, place.count),
                {static_cast<int64_t>(place.count)}}};
}

// A lease may come a second time, before the loop has left its body for the
// first. Calls in that body are not about the new batch, which the loop has not
// taken.
bool training_loop_state::is_open(lease_id which) const {
  return job_ && job_->task.from.id == which && job_->taken && !job_->over;
}

// -- the chain ----------------------------------------------------------------

auto training_loop_state::score(const module_call& call) -> module_result {
  if (!is_open(call.from.id))
    return no_longer_wanted();
  job_->loss = self_->make_response_promise<module_answer>();
  job_->waiting.deliver(module_answer{.outputs = call.inputs});
  return job_->loss;
}

void training_loop_state::computed(const gradient_report& report) {
  if (!job_)
    return;
  job_->computing = false;
  if (job_->over || report.cancelled) {
    auto gone = *std::exchange(job_, std::nullopt);
    if (gone.waiting.pending())
      gone.waiting.deliver(no_longer_wanted());
    gradient_report none;
    none.cancelled = true;
    return gone.asks.deliver(std::move(none));
  }
  job_->report = report;
  job_->waiting.deliver(module_answer{});
}

} // namespace troupe
