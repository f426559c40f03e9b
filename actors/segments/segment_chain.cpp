#include "actors/segments/segment_chain.hpp"

#include "actors/runtime/tensor_payload.hpp"
#include "actors/segments/activations.hpp"
#include "actors/segments/stage.hpp"
#include "config/text/one_line.hpp"
#include "data/dataset.hpp"
#include "models/engine/intra_op.hpp"
#include "models/guarded.hpp"

#include <torch/autograd.h>
#include <torch/utils.h>

#include <algorithm>
#include <exception>
#include <utility>

namespace troupe {

using cores::pass_kind;
using cores::pipeline_pass;

chain_state::chain_state(pointer self, chain_parts parts)
  : self_(self), parts_(std::move(parts)),
    gradients_(std::max<uint64_t>(own_count(), 1), parts_.training.dtype,
               parts_.memory),
    loss_(parts_.training) {
  if (parts_.training.autocast == config::autocast_kind::fp16)
    scale_.emplace();
}

compute_actor::behavior_type chain_state::make_behavior() {
  for (const auto& segment : parts_.segments)
    if (segment.here)
      self_->link_to(segment.here);
  return {
    [this](compute_atom, const compute_task& task) { return begin(task); },
    [this](cancel_atom) {
      give_up({});
      finish();
    },
    // Ends this actor, so that the stages that are linked to it end, too.
    [this](ended_atom, const run_end&) {
      self_->quit(caf::exit_reason::user_shutdown);
    },
  };
}

// -- a batch ------------------------------------------------------------------

caf::result<gradient_report> chain_state::begin(const compute_task& task) {
  auto asks = self_->make_response_promise<gradient_report>();
  launch(asks, [&] { return make_job(task, asks); });
  return asks;
}

/// Begins with the job that `make` returns.
template <class F>
void chain_state::launch(promise asks, F make) try {
  job_ = make();
  open_contexts();
  advance();
} catch (const std::exception& err) {
  auto why = caf::make_error(errc::failed, one_line(err));
  if (!job_)
    asks.deliver(why);
  give_up(why);
  finish();
}

// In half precision, when some owner's gradient has overflowed, and before any
// gradient leaves: the same batch at half the scale.
void chain_state::repeat() {
  launch(job_->asks, [this] {
    scale_->overflow();
    close_elsewhere();
    auto next = make_job(job_->task, job_->asks);
    next.clock = job_->clock;
    next.overflows = job_->overflows + 1;
    for (size_t k = 0; k < next.segments.size(); ++k)
      next.segments[k].seconds = job_->segments[k].seconds;
    return next;
  });
}

auto chain_state::make_job(const compute_task& task, promise asks) -> job {
  job next{
    task, std::move(asks), run_clock{self_},
    gradients_.take_tensor().narrow(0, 0, static_cast<int64_t>(own_count()))};
  next.samples = static_cast<uint64_t>(task.batch->targets.numel());
  auto size =
    std::min(parts_.micro_batch_size, std::max<uint64_t>(next.samples, 1));
  next.micro_batches = std::max<uint32_t>(
    1, static_cast<uint32_t>((next.samples + size - 1) / size));
  auto count = static_cast<uint32_t>(parts_.segments.size());
  for (uint32_t k = 0; k < count; ++k)
    next.segments.push_back(
      {cores::passes_of(parts_.schedule, k, count, next.micro_batches)});
  if (parts_.statistics > 0) {
    next.statistics =
      task.statistics ? task.statistics
                      : task.weights.part(parts_.parameters, parts_.statistics);
    statistics_of(next.gradient).copy_(to_tensor(next.statistics));
  }
  return next;
}

void chain_state::open_contexts() {
  for (size_t k = 0; k < parts_.segments.size(); ++k)
    if (const auto& here = parts_.segments[k].here)
      self_->send(here, begin_atom_v,
                  std::make_shared<stage_context>(stage_context{
                    job_->task.from, job_->task.weights, job_->gradient,
                    statistics_of(job_->gradient, k), job_->task.cancel}));
}

void chain_state::advance() {
  for (size_t k = 0; !job_->over && k < job_->segments.size(); ++k)
    if (is_ready(k))
      start(k);
}

bool chain_state::is_ready(size_t segment) const {
  const auto& work = job_->segments[segment];
  if (work.busy || work.next == work.passes.size())
    return false;
  auto [what, m] = work.passes[work.next];
  if (what == pass_kind::backward)
    return work.gradients.contains(m);
  return segment == 0 || work.inputs.contains(m);
}

void chain_state::start(size_t segment) {
  auto& work = job_->segments[segment];
  auto pass = work.passes[work.next++];
  auto forward = pass.what == pass_kind::forward;
  auto call = make_call(pass.micro_batch);
  call.segment = static_cast<uint32_t>(segment);
  if (!forward)
    call.inputs = std::move(work.gradients.extract(pass.micro_batch).mapped());
  else if (segment == 0)
    call.inputs = to_activations(
      micro_batch_of(job_->task.batch->inputs, pass.micro_batch));
  else
    call.inputs = std::move(work.inputs.extract(pass.micro_batch).mapped());
  if (!forward && scale_)
    call.scale = scale_->value();
  const auto& [here, server, statistics] = parts_.segments[segment];
  call.server = server;
  if (forward && pass.micro_batch == 0 && !here && statistics.count > 0)
    call.statistics = job_->statistics.part(statistics.first, statistics.count);
  work.busy = true;
  ++job_->busy;
  auto ask = [&](auto value) {
    self_->request(where(segment), caf::infinite, value, call)
      .then(
        [this, segment, pass](const module_answer& answer) {
          collect_answer(segment, pass, answer);
        },
        [this, segment](const caf::error& why) { refuse(segment, why); });
  };
  if (forward)
    ask(forward_atom_v);
  else
    ask(backward_atom_v);
}

void chain_state::collect_answer(size_t segment, pipeline_pass pass,
                                 const module_answer& answer) try {
  auto& work = job_->segments[segment];
  work.busy = false;
  --job_->busy;
  work.seconds += answer.seconds;
  job_->overflow |= answer.overflow;
  if (answer.cancelled)
    give_up({});
  if (job_->over)
    return finish();
  auto last = segment + 1 == job_->segments.size();
  auto m = pass.micro_batch;
  if (pass.what == pass_kind::forward && last)
    take_scores(m, answer.outputs);
  else if (pass.what == pass_kind::forward)
    job_->segments[segment + 1].inputs[m] = answer.outputs;
  else if (segment > 0)
    job_->segments[segment - 1].gradients[m] = answer.outputs;
  if (answer.statistics)
    statistics_of(job_->gradient, segment).copy_(to_tensor(answer.statistics));
  advance();
  finish(); // Unless a segment is at work.
} catch (const std::exception& err) {
  give_up(caf::make_error(errc::failed, one_line(err)));
  finish();
}

void chain_state::take_scores(uint32_t micro_batch, const activations& found) {
  if (parts_.loss)
    return ask_for_loss(micro_batch, found);
  models::guarded("computing a gradient", [&] {
    models::intra_op_threads threads{parts_.threads};
    torch::AutoGradMode with_grad{true};
    auto scores = to_tensor(found).detach().set_requires_grad(true);
    auto targets = micro_batch_of(job_->task.batch->targets, micro_batch);
    auto loss =
      loss_.share(scores, targets, static_cast<int64_t>(job_->samples));
    auto gradient = torch::autograd::grad({loss}, {scores})[0];
    if (scale_)
      gradient = gradient.mul(scale_->value());
    job_->loss += loss.item<double>();
    job_->segments.back().gradients[micro_batch] = to_activations(gradient);
  });
}

void chain_state::ask_for_loss(uint32_t micro_batch,
                               const activations& scores) {
  auto call = make_call(micro_batch);
  call.inputs = scores;
  ++job_->busy;
  self_->request(parts_.loss, caf::infinite, score_atom_v, std::move(call))
    .then(
      [this, micro_batch](const module_answer& answer) {
        --job_->busy;
        if (answer.cancelled)
          give_up({});
        else if (!job_->over)
          job_->segments.back().gradients[micro_batch] = answer.outputs;
        if (!job_->over)
          advance();
        finish();
      },
      [this](const caf::error& why) {
        --job_->busy;
        give_up(why);
        finish();
      });
}

// -- the end of a batch -------------------------------------------------------

// Only a computation that cannot be done is a failure of this worker. Of all
// other errors of an owner the worker hears from its server, too.
void chain_state::refuse(size_t segment, const caf::error& why) {
  job_->segments[segment].busy = false;
  --job_->busy;
  auto here = parts_.segments[segment].here != nullptr;
  give_up(here || why == errc::failed || why == errc::protocol_violation
            ? why
            : caf::error{});
  finish();
}

// Contexts elsewhere are closed by a message; stages that are here see the
// flag, too.
void chain_state::give_up(const caf::error& why) {
  if (!job_ || job_->over)
    return;
  job_->over = true;
  job_->why = why;
  job_->task.cancel->store(true);
  for (const auto& segment : parts_.segments)
    if (segment.here)
      self_->send(segment.here, cancel_atom_v, job_->task.from.id);
  close_elsewhere();
}

void chain_state::close_elsewhere() {
  if (std::ranges::any_of(parts_.segments,
                          [](const chain_link& x) { return !x.here; }))
    self_->send(caf::actor_cast<module_actor>(job_->task.link), cancel_atom_v,
                job_->task.from.id);
}

void chain_state::finish() {
  if (!job_ || job_->busy > 0)
    return;
  if (job_->overflow && !job_->over)
    return repeat();
  auto done = *std::exchange(job_, std::nullopt);
  if (done.why)
    return done.asks.deliver(done.why);
  gradient_report report;
  report.cancelled = done.over;
  report.seconds = done.clock.elapsed(self_);
  report.samples = done.samples;
  report.loss = done.loss;
  if (scale_ && !done.over) {
    report.metrics = fp16_metrics(scale_->value(), done.overflows);
    scale_->succeed();
  }
  double busy = 0;
  for (const auto& work : done.segments)
    busy += work.seconds;
  report.idle = std::max(
    0.0, report.seconds - busy / static_cast<double>(done.segments.size()));
  if (parts_.training.buffers == config::buffers_rule::local &&
      parts_.statistics > 0)
    report.statistics = to_payload(statistics_of(done.gradient).clone());
  report.gradient = to_payload(std::move(done.gradient));
  done.asks.deliver(std::move(report));
}

// -- helpers ------------------------------------------------------------------

module_call chain_state::make_call(uint32_t micro_batch) const {
  module_call out;
  out.from = job_->task.from;
  out.weights = job_->task.computed_on;
  out.first = first_of(micro_batch);
  out.last = micro_batch + 1 == job_->micro_batches;
  return out;
}

uint64_t chain_state::first_of(uint32_t micro_batch) const {
  return micro_batch == 0 ? 0 : micro_batch * parts_.micro_batch_size;
}

at::Tensor chain_state::micro_batch_of(const at::Tensor& all,
                                       uint32_t which) const {
  auto first = first_of(which);
  auto count = std::min(parts_.micro_batch_size, job_->samples - first);
  return all.narrow(0, static_cast<int64_t>(first),
                    static_cast<int64_t>(count));
}

at::Tensor chain_state::statistics_of(const at::Tensor& own) const {
  return own.narrow(0, static_cast<int64_t>(parts_.parameters),
                    static_cast<int64_t>(parts_.statistics));
}

at::Tensor chain_state::statistics_of(const at::Tensor& own,
                                      size_t segment) const {
  const auto& range = parts_.segments[segment].statistics;
  return statistics_of(own).narrow(0, static_cast<int64_t>(range.first),
                                   static_cast<int64_t>(range.count));
}

module_actor chain_state::where(size_t segment) const {
  const auto& here = parts_.segments[segment].here;
  return here ? module_actor{here}
              : caf::actor_cast<module_actor>(job_->task.link);
}

} // namespace troupe
