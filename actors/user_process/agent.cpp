#include "actors/user_process/agent.hpp"

#include "actors/runtime/tensor_payload.hpp"
#include "actors/user_process/bodies.hpp"
#include "config/text/failure.hpp"
#include "config/text/one_line.hpp"
#include "data/dataset.hpp"
#include "models/device/device_tensor.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

using external::process_frame_kind;

agent_state::agent_state(pointer self, agent_parts parts)
  : user_process_state(self, parts), self_(self),
    order_(std::move(parts.order)),
    cuts_(parts.layout, parts.settings.training.fragments),
    count_(parts.layout.count()), gradients_(blocks_.pool_of_gradients()),
    copies_(models::pool_of_copies(parts.layout.count() *
                                     models::size_of(parts.layout.dtype()),
                                   parts.copies)) {
  // nop
}

agent_actor::behavior_type agent_state::make_behavior() {
  blocks_.welcome(process_.settings.training, process_.frozen);
  return {
    [this](compute_atom, compute_task& task) {
      return begin(std::exchange(task, {}));
    },
    [this](cancel_atom) { cancel(); },
    [this](ended_atom, const run_end& how) {
      process_.line->end(how);
      self_->quit();
    },
    [this](ended_atom, version number, const payload& weights, bool applied) {
      blocks_.give_last(number, weights, applied ? sent_ : 0);
    },
    [this](load_atom, const lease& work) { return load(work); },
    [this](frame_atom, uint32_t kind, uint64_t number,
           const std::string& body) {
      handle_frame(static_cast<process_frame_kind>(kind), number, body);
    },
    [this](detach_atom, const caf::error& why) { lose(why); },
    [this](tick_atom) { check_time(); },
  };
}

// -- what the process is told -------------------------------------------------

// The process has the data, so an answer at once lets the worker go on.
caf::result<loaded_batch> agent_state::load(const lease& work) try {
  if (!paused_) {
    numbers_ = std::max(numbers_ + 1, work.id.value);
    process_.line->send(process_frame_kind::lease, numbers_,
                        external::lease_body(work, order_));
    waiting_.push_back({work, numbers_});
  }
  static const auto nothing = std::make_shared<const data::batch>();
  return loaded_batch{work, nothing};
} catch (const std::exception& err) {
  return caf::make_error(errc::bad_data, one_line(err));
}

// Leases are computed in their order, so those before this one belonged to a
// place in the cluster that the worker has lost. A lease that the process does
// not know came while the process was out of its loop.
caf::result<gradient_report> agent_state::begin(compute_task task) {
  auto found = std::ranges::find(waiting_, task.from, &told_lease::what);
  told_lease of{task.from, 0, true};
  if (found != waiting_.end()) {
    for (auto before = found - waiting_.begin(); before > 0; --before)
      withdraw_first();
    of = waiting_.front();
    waiting_.pop_front();
  }
  job_ =
    job{of, self_->make_response_promise<gradient_report>(),
        gradients_.take_tensor(), run_clock{self_}, cuts_.all(task.fragment)};
  auto asks = job_->asks;
  if (lost_) {
    finish(lost_);
  } else if (of.refused) {
    finish(without_gradient(*job_));
  } else if (*task.cancel) { // The process waits for the weights of its lease.
    process_.line->send(process_frame_kind::withdrawn, of.number);
    finish(without_gradient(*job_));
  } else {
    blocks_.forget_unused();
    auto gets = task.goes_on ? cuts_.all(cuts_.before(task.fragment))
                             : models::element_range{0, count_};
    auto weights = blocks_.usable(task.weights, gets.first);
    auto weights_at = blocks_.place_of(weights);
    auto gradient_at = blocks_.place_of(job_->gradient);
    unanswered_.insert_or_assign(
      of.number,
      blocks{weights, job_->gradient, run_clock{self_}, task.progress});
    process_.line->send(
      process_frame_kind::weights, of.number,
      external::weights_body(
        {task.computed_on, task.last_was_dropped, task.goes_on, steps_of(task)},
        {weights_at, gets}, {gradient_at, job_->gives}));
  }
  return asks;
}

uint64_t agent_state::steps_of(const compute_task& task) const {
  return task.steps > 0 ? task.steps
                        : process_.settings.training.local_steps.most;
}

void agent_state::withdraw_first() {
  process_.line->send(process_frame_kind::withdrawn, waiting_.front().number);
  waiting_.pop_front();
}

void agent_state::cancel() {
  if (!job_)
    return;
  if (unanswered_.contains(job_->of.number))
    process_.line->send(process_frame_kind::cancelled, job_->of.number);
  finish(without_gradient(*job_));
}

// The reader's ticks call this: a timer would keep the agent alive when its run
// is over.
void agent_state::check_time() {
  if (!paused_ && std::ranges::any_of(unanswered_, [this](const auto& one) {
        return is_late(one.second.since);
      }))
    lose_late(process_.settings.training.local_steps.most > 0
                ? "made no local step"
                : "sent no gradient");
}

// -- what it answers ----------------------------------------------------------

void agent_state::handle_frame(process_frame_kind kind, uint64_t number,
                               const std::string& body) {
  switch (kind) {
  case process_frame_kind::gradient:
    return take_gradient(number, body);
  case process_frame_kind::returned:
    return give_back(number);
  case process_frame_kind::paused:
    return pause();
  case process_frame_kind::resumed:
    return resume();
  case process_frame_kind::failed:
    return lose_failed(body);
  case process_frame_kind::stepped:
    return note_step(number);
  default:
    refuse_kind(kind);
  }
}

void agent_state::take_gradient(uint64_t from, const std::string& body) try {
  auto [samples, loss, others, metrics] = external::read_gradient(body, who());
  if (!release_blocks(from))
    return lose_over("sent a gradient that it was not asked for");
  if (!job_ || job_->of.number != from) { // It was cancelled meanwhile.
    for (auto number : others)
      give_back(number);
    return;
  }
  gradient_report report;
  auto wanted = job_->of.what.count + take_out(others, report.also);
  if (samples != wanted)
    return lose_over("sent a gradient of " + std::to_string(samples) +
                     " samples, and its leases have " + std::to_string(wanted));
  report.metrics = std::move(metrics);
  report.gradient = to_payload(job_->gradient, copies_)
                      .part(job_->gives.first, job_->gives.count);
  report.samples = samples;
  report.loss = loss;
  report.seconds = job_->clock.elapsed(self_);
  sent_ = from;
  finish(std::move(report));
} catch (const failure& why) {
  lose(caf::make_error(errc::protocol_violation, std::string{why.what()}));
}

/// Ends these leases: a gradient that was asked for another lease covers them,
/// too. Returns how many samples they have; leases that are not there have
/// none.
uint64_t agent_state::take_out(const std::vector<uint64_t>& numbers,
                               std::vector<lease_id>& also) {
  uint64_t out = 0;
  for (auto number : numbers) {
    auto found = std::ranges::find(waiting_, number, &told_lease::number);
    if (found == waiting_.end() || found->refused)
      continue;
    out += found->what.count;
    also.push_back(found->what.id);
    waiting_.erase(found);
  }
  return out;
}

void agent_state::give_back(uint64_t number) {
  auto found = std::ranges::find(waiting_, number, &told_lease::number);
  if (release_blocks(number)) {
    if (job_ && job_->of.number == number)
      finish(without_gradient(*job_));
  } else if (found != waiting_.end()) {
    found->refused = true;
  }
}

// A round is one computation here, so that only the process knows its steps.
void agent_state::note_step(uint64_t number) {
  auto found = unanswered_.find(number);
  if (found == unanswered_.end())
    return lose_over("made a local step that it was not asked for");
  found->second.since = run_clock{self_};
  if (const auto& progress = found->second.progress)
    ++*progress;
}

/// Ends the process's use of the blocks of this lease.
bool agent_state::release_blocks(uint64_t number) {
  return unanswered_.erase(number) > 0;
}

// The worker gives up its place, so that nobody waits for it; its session
// keeps the connection.
void agent_state::pause() {
  if (std::exchange(paused_, true))
    return;
  while (!waiting_.empty())
    withdraw_first();
  cancel();
  self_->send(process_.session, leave_atom_v);
}

void agent_state::resume() {
  if (!std::exchange(paused_, false))
    return;
  for (auto& [number, one] : unanswered_)
    one.since = run_clock{self_};
  self_->send(process_.session, join_atom_v);
}

gradient_report agent_state::without_gradient(const job& of) const {
  gradient_report out;
  out.cancelled = true;
  out.seconds = of.clock.elapsed(self_);
  return out;
}

void agent_state::finish(caf::expected<gradient_report> report) {
  auto done = *std::exchange(job_, std::nullopt);
  done.gradient.reset();
  done.asks.deliver(std::move(report));
}

void agent_state::fail_requests() {
  if (job_)
    finish(lost_);
}

// -- both ---------------------------------------------------------------------

agent_actor make_agent(caf::actor_system& system, agent_parts parts) {
  return spawn_for_process<agent_actor, agent_state>(system, std::move(parts));
}

} // namespace troupe
