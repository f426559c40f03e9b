#include "models/engine/host_segment.hpp"

#include "config/text/failure.hpp"
#include "models/device/accelerator.hpp"
#include "models/engine/loss_scale.hpp"
#include "models/scalar.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace troupe::models {

namespace {

/// Parameters without another's between them, so that one copy takes all of
/// their gradients. Those of other segments may lie in between: the owner's
/// buffer has theirs there.
std::vector<element_range>
runs_of_slots(const std::vector<parameter_slot>& all) {
  std::vector<element_range> out;
  for (const auto& slot : all)
    if (!out.empty() && out.back().end() == slot.offset)
      out.back().count += slot.count;
    else
      out.push_back({slot.offset, slot.count});
  return out;
}

at::Tensor elements_of(const at::Tensor& flat, const element_range& range) {
  return flat.narrow(0, static_cast<int64_t>(range.first),
                     static_cast<int64_t>(range.count));
}

} // namespace

/// What a GPU has of a batch. All is enqueued on one stream, so that only the
/// host ever waits.
struct host_segment::device_copies {
  device_copies(c10::Device device, segment& its)
    : where(device), whole{its.tighten()}, runs(runs_of_slots(its.slots())),
      stream(c10::impl::VirtualGuardImpl{device.type()}.getStreamFromGlobalPool(
        device)) {
    // nop
  }

  void begin(const segment_batch& batch, segment& its) {
    at::NoGradGuard no_grad;
    if (static_cast<uint64_t>(batch.weights.numel()) < whole.end() ||
        static_cast<uint64_t>(batch.gradient.numel()) < whole.end())
      throw run_error("the weights do not fit the network");
    owner = batch;
    is_reading = true;
    auto there = batch;
    there.weights = place(elements_of(batch.weights, whole));
    there.gradient = at::empty_like(there.weights);
    if (batch.statistics.defined())
      there.statistics = place(batch.statistics);
    gradient = there.gradient;
    statistics = there.statistics;
    its.begin(there);
  }

  at::Tensor place(const at::Tensor& host) const {
    return host.defined() ? host.to(where, /*non_blocking=*/true) : host;
  }

  /// The same numbers in the host's memory, in the same order there.
  at::Tensor bring(const at::Tensor& x) {
    if (!x.defined())
      return x;
    at::NoGradGuard no_grad;
    auto there = x.detach();
    auto out = at::empty_like(
      there, there.options().device(at::kCPU).pinned_memory(true));
    out.copy_(there, /*non_blocking=*/true);
    wait();
    return out;
  }

  /// As models::unscale; undefined without parameters.
  at::Tensor take_out(double scale) const {
    std::vector<at::Tensor> all;
    for (const auto& run : runs)
      all.push_back(elements_of(gradient, run));
    return all.empty() ? at::Tensor{} : unscale(all, scale);
  }

  void bring_gradient() {
    at::NoGradGuard no_grad;
    auto to = elements_of(owner.gradient, whole);
    for (const auto& run : runs)
      elements_of(to, run).copy_(elements_of(gradient, run),
                                 /*non_blocking=*/true);
    if (statistics.defined())
      owner.statistics.copy_(statistics, /*non_blocking=*/true);
  }

  /// Waits until all that has been enqueued is done.
  void wait() {
    c10::Event done{stream.device_type()};
    done.record(stream);
    done.synchronize();
    is_reading = false;
  }

  c10::Device where;
  element_range whole; ///< Of the owner's buffers.
  std::vector<element_range> runs;
  c10::Stream stream;

  // Of the batch in hand:
  segment_batch owner;
  at::Tensor gradient, statistics;
  bool is_reading = false; ///< The owner's buffers, maybe.
};

host_segment::host_segment(const config::training_settings& settings,
                           int64_t classes, const at::Tensor& frozen,
                           part_range which, std::optional<element_range> range)
  : segment_(settings, classes, frozen, which, range) {
  if (auto where = device_named(settings.device); !where.is_cpu())
    copies_ = std::make_unique<device_copies>(where, segment_);
}

host_segment::~host_segment() = default;

void host_segment::begin(const segment_batch& batch) {
  overflowed_ = false;
  if (!copies_)
    return segment_.begin(batch);
  c10::StreamGuard guard{copies_->stream};
  copies_->begin(batch, segment_);
}

host_pass host_segment::forward(const at::Tensor& inputs,
                                const dropout_key& drop, bool first) {
  host_pass out;
  if (!copies_) {
    out.there = segment_.forward(inputs, drop, first);
    out.outputs = out.there.outputs.detach();
    return out;
  }
  c10::StreamGuard guard{copies_->stream};
  out.there = segment_.forward(copies_->place(inputs), drop, first);
  out.outputs = copies_->bring(out.there.outputs);
  return out;
}

at::Tensor host_segment::backward(const host_pass& pass,
                                  const at::Tensor& gradient,
                                  micro_batch_place at, double scale) {
  const auto& [there, outputs] = pass;
  if (!copies_ && scale > 0)
    throw run_error("--autocast fp16 needs a GPU");
  if (!copies_)
    return segment_.backward(there, there.outputs, gradient, at);
  c10::StreamGuard guard{copies_->stream};
  auto out =
    segment_.backward(there, there.outputs, copies_->place(gradient), at);
  at::Tensor overflow;
  if (at.last) {
    if (scale > 0)
      overflow = copies_->take_out(scale);
    copies_->bring_gradient();
  }
  if (overflow.defined())
    overflowed_ = copies_->bring(overflow).item<double>() != 0;
  if (out.defined())
    return copies_->bring(out);
  if (!overflow.defined())
    copies_->wait();
  return out;
}

void host_segment::end() {
  segment_.end();
  if (!copies_)
    return;
  if (copies_->is_reading)
    copies_->wait();
  copies_->owner = {};
  copies_->gradient.reset();
  copies_->statistics.reset();
}

} // namespace troupe::models
