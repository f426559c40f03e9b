#include "models/device/transfers.hpp"

#include "models/scalar.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <utility>

namespace troupe::models {

namespace {

/// Bytes of a gradient that go over at once: enough for the bus's full rate,
/// little beside what backward makes meanwhile.
constexpr uint64_t piece_bytes = 4u << 20;

c10::Stream stream_of(c10::Device where) {
  return c10::impl::VirtualGuardImpl{where.type()}.getStreamFromGlobalPool(
    where);
}

at::Tensor buffer_on(c10::Device where, int64_t count, at::ScalarType type) {
  return at::empty({count}, at::TensorOptions{type}.device(where));
}

} // namespace

device_transfers::device_transfers(c10::Device where, const flat_layout& layout)
  : compute_(stream_of(where)), copies_(stream_of(where)),
    count_(static_cast<int64_t>(layout.count())),
    dtype_(to_aten(layout.dtype())),
    piece_elements_(piece_bytes / size_of(layout.dtype())) {
  // nop
}

at::Tensor device_transfers::place_weights(const at::Tensor& weights) {
  is_computing_ = true;
  if (!weights.is_cpu())
    return weights;
  c10::StreamGuard guard{compute_};
  at::NoGradGuard no_grad;
  if (!weights_.defined())
    weights_ = buffer_on(device(), count_, dtype_);
  weights_.copy_(weights, /*non_blocking=*/true);
  return weights_;
}

at::Tensor device_transfers::place(const at::Tensor& host) const {
  c10::StreamGuard guard{compute_};
  return host.to(device(), /*non_blocking=*/true);
}

at::Tensor
device_transfers::begin_gradient(const at::Tensor& wanted,
                                 std::function<void(uint64_t)> told) {
  if (!wanted.is_cpu())
    return wanted;
  c10::StreamGuard guard{compute_};
  if (!gradient_.defined())
    gradient_ = buffer_on(device(), count_, dtype_);
  host_ = wanted;
  told_ = std::move(told);
  missing_ = static_cast<uint64_t>(count_);
  return gradient_;
}

void device_transfers::advance(uint64_t first) {
  if (!host_.defined())
    return;
  auto gathered = missing_ - first;
  if (gathered >= piece_elements_ || (first == 0 && gathered > 0))
    copy_from(first);
  tell_arrived(/*wait=*/false);
}

void device_transfers::copy_from(uint64_t first) {
  at::NoGradGuard no_grad;
  c10::impl::VirtualGuardImpl device{compute_.device_type()};
  c10::Event made{compute_.device_type()};
  made.record(device.getStream(compute_.device()));
  c10::StreamGuard guard{copies_};
  made.block(copies_);
  auto count = static_cast<int64_t>(missing_ - first);
  auto at = static_cast<int64_t>(first);
  host_.narrow(0, at, count)
    .copy_(gradient_.narrow(0, at, count), /*non_blocking=*/true);
  pieces_.push_back({first, c10::Event{copies_.device_type()}});
  pieces_.back().arrived.record(copies_);
  missing_ = first;
}

/// Tells of the pieces that have arrived, in their order.
void device_transfers::tell_arrived(bool wait) {
  while (!pieces_.empty()) {
    auto& next = pieces_.front();
    if (wait)
      next.arrived.synchronize();
    else if (!next.arrived.query())
      return;
    if (told_)
      told_(next.first);
    pieces_.pop_front();
  }
}

void device_transfers::finish_gradient() {
  tell_arrived(/*wait=*/true);
  host_.reset();
  told_ = nullptr;
}

arriving_numbers
device_transfers::send_numbers(const std::vector<at::Tensor>& numbers) const {
  at::NoGradGuard no_grad;
  std::vector<at::Tensor> all;
  for (const auto& x : numbers)
    all.push_back(x.reshape({1}));
  auto here = at::cat(all);
  arriving_numbers out{
    at::empty_like(here, here.options().device(at::kCPU).pinned_memory(true)),
    c10::Event{compute_.device_type()}};
  out.there.copy_(here, /*non_blocking=*/true);
  out.arrived.record(compute_);
  return out;
}

std::vector<double> arriving_numbers::read() const {
  arrived.synchronize();
  auto all = there.to(at::kDouble);
  const auto* first = all.const_data_ptr<double>();
  return {first, first + all.numel()};
}

void device_transfers::abandon_gradient() noexcept try {
  told_ = nullptr;
  tell_arrived(/*wait=*/true);
  if (std::exchange(is_computing_, false))
    compute_.synchronize();
  host_.reset();
} catch (...) {
  // A device that has failed writes no more.
  pieces_.clear();
  host_.reset();
}

} // namespace troupe::models
