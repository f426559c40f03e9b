#include "actors/external/agent.hpp"

#include "actors/external/bodies.hpp"
#include "actors/runtime/spawning.hpp"
#include "actors/runtime/tensor_payload.hpp"
#include "actors/runtime/unexpected.hpp"
#include "config/text/failure.hpp"
#include "config/text/one_line.hpp"
#include "config/text/value.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

namespace {

using external::process_frame_kind;

caf::error broken(const std::string& what) {
  return caf::make_error(errc::protocol_violation, what);
}

} // namespace

agent_state::agent_state(pointer self, agent_parts parts)
  : self_(self), parts_(std::move(parts)),
    blocks_(parts_.line, parts_.memory, parts_.layout),
    gradients_(parts_.layout.count(), parts_.layout.dtype(), parts_.memory) {
  on_unexpected(self_, [this](const std::string& line) {
    lose(caf::make_error(errc::failed, line));
  });
}

agent_actor::behavior_type agent_state::make_behavior() {
  blocks_.welcome(parts_.settings.training, parts_.frozen);
  return {
    [this](compute_atom, compute_task& task) {
      return begin(std::exchange(task, {}));
    },
    [this](cancel_atom) { cancel(); },
    [this](ended_atom, const run_end& how) {
      parts_.line->end(how);
      self_->quit();
    },
    [this](load_atom, const lease& what) { return load(what); },
    [this](frame_atom, uint32_t kind, uint64_t number,
           const std::string& body) {
      take(static_cast<process_frame_kind>(kind), number, body);
    },
    [this](detach_atom, const caf::error& why) { lose(why); },
    [this](tick_atom) { check_time(); },
  };
}

// -- what the process is told -------------------------------------------------

// The batch is with the process: an answer at once lets the worker go on.
caf::result<loaded_batch> agent_state::load(const lease& what) try {
  parts_.line->send(process_frame_kind::lease, what.id.value,
                    external::lease_body(what, parts_.order));
  waiting_.push_back(what);
  static const auto nothing = std::make_shared<const data::batch>();
  return loaded_batch{what, nothing};
} catch (const std::exception& err) {
  return caf::make_error(errc::bad_data, one_line(err));
}

// Leases are computed in their order: those before this one belonged to a
// place in the cluster that the worker has lost.
caf::result<gradient_report> agent_state::begin(compute_task task) {
  while (!waiting_.empty() && waiting_.front().id != task.from.id) {
    refused_.erase(waiting_.front().id);
    parts_.line->send(process_frame_kind::withdrawn, waiting_.front().id.value);
    waiting_.pop_front();
  }
  if (!waiting_.empty())
    waiting_.pop_front();
  job_ = job{task.from, self_->make_response_promise<gradient_report>(),
             gradients_.take(), run_clock{self_}};
  auto asks = job_->asks;
  if (lost_) {
    finish(lost_);
  } else if (refused_.erase(task.from.id) > 0 || *task.cancel) {
    finish(without_gradient(*job_));
  } else {
    blocks_.forget_unused();
    auto weights = blocks_.mappable(task.weights);
    auto weights_at = blocks_.place_of(weights.bytes());
    auto gradient_at = blocks_.place_of(external::bytes_of(job_->gradient));
    unanswered_[task.from.id] = {weights, job_->gradient};
    parts_.line->send(process_frame_kind::weights, task.from.id.value,
                      external::weights_body(task.computed_on,
                                             task.last_was_dropped, weights_at,
                                             gradient_at));
  }
  return asks;
}

void agent_state::cancel() {
  if (!job_)
    return;
  if (unanswered_.contains(job_->what.id))
    parts_.line->send(process_frame_kind::cancelled, job_->what.id.value);
  finish(without_gradient(*job_));
}

// The reader asks for it: a timer would keep the agent when its run is over.
void agent_state::check_time() {
  auto limit = parts_.settings.training.compute_timeout;
  if (job_ && job_->clock.elapsed(self_) > limit)
    lose(caf::make_error(errc::timed_out,
                         "process " + std::to_string(parts_.line->pid()) +
                           " has sent no gradient in " + config::print(limit) +
                           " s (--compute-timeout)"));
}

// -- what it answers ----------------------------------------------------------

void agent_state::take(process_frame_kind kind, uint64_t number,
                       const std::string& body) {
  switch (kind) {
  case process_frame_kind::gradient:
    return take_gradient(lease_id{number}, body);
  case process_frame_kind::returned:
    return give_back(lease_id{number});
  default:
    lose(broken("process " + std::to_string(parts_.line->pid()) +
                " sent a frame of unknown kind " +
                std::to_string(static_cast<uint32_t>(kind))));
  }
}

void agent_state::take_gradient(lease_id from, const std::string& body) try {
  auto who = "process " + std::to_string(parts_.line->pid());
  auto [samples, loss, also, metrics] = external::read_gradient(body, who);
  if (!settle(from))
    return lose(broken(who + " sent a gradient that it was not asked for"));
  if (!job_ || job_->what.id != from) { // It was cancelled meanwhile.
    for (auto id : also)
      give_back(id);
    return;
  }
  auto wanted = job_->what.count + take_out(also);
  if (samples != wanted)
    return lose(broken(who + " sent a gradient of " + std::to_string(samples) +
                       " samples, and its leases have " +
                       std::to_string(wanted)));
  gradient_report report;
  report.also = std::move(also);
  report.metrics = std::move(metrics);
  report.gradient = to_payload(job_->gradient);
  report.samples = samples;
  report.loss = loss;
  report.seconds = job_->clock.elapsed(self_);
  finish(std::move(report));
} catch (const failure& why) {
  lose(broken(why.what()));
}

/// Ends these leases, which a gradient covers that was asked for another one.
/// Returns how many samples they have; those that are not there have none.
uint64_t agent_state::take_out(const std::vector<lease_id>& what) {
  uint64_t out = 0;
  std::erase_if(waiting_, [&](const lease& one) {
    auto covered =
      std::ranges::count(what, one.id) == 1 && !refused_.contains(one.id);
    out += covered ? one.count : 0;
    return covered;
  });
  return out;
}

void agent_state::give_back(lease_id what) {
  if (settle(what)) {
    if (job_ && job_->what.id == what)
      finish(without_gradient(*job_));
  } else if (std::ranges::count(waiting_, what, &lease::id) > 0) {
    refused_.insert(what);
  }
}

/// Ends the process's use of the blocks of this lease.
bool agent_state::settle(lease_id what) {
  return unanswered_.erase(what) > 0;
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

void agent_state::lose(const caf::error& why) {
  if (lost_)
    return;
  lost_ = why;
  self_->send(parts_.session, ended_atom_v, run_end{1, text_of(why)});
  if (job_)
    finish(lost_);
}

// -- both ---------------------------------------------------------------------

agent_actor make_agent(caf::actor_system& system, agent_parts parts) {
  auto line = parts.line;
  auto agent = spawn<agent_actor, agent_state>(system, placement::scheduled,
                                               std::move(parts));
  read_frames(system, std::move(line), agent);
  return agent;
}

} // namespace troupe
