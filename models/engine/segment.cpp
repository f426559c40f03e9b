#include "models/engine/segment.hpp"

#include "models/device/accelerator.hpp"
#include "models/guarded.hpp"
#include "models/layout/segments.hpp"
#include "models/scalar.hpp"

#include <ATen/autocast_mode.h>
#include <ATen/ops/empty.h>
#include <torch/autograd.h>
#include <torch/nn/module.h>
#include <torch/utils.h>

#include <algorithm>
#include <string>
#include <utility>

namespace troupe::models {

namespace {

/// The same values with channels last in memory, in which LibTorch's
/// convolutions and pools are faster (LeNet: 1.6 times). No copy for images of
/// one channel, whose memory is the same either way.
at::Tensor channels_last(const at::Tensor& inputs) {
  if (inputs.dim() != 4 || inputs.size(1) != 1 || !inputs.is_contiguous())
    return inputs.dim() == 4 ? inputs.contiguous(at::MemoryFormat::ChannelsLast)
                             : inputs;
  auto height = inputs.size(2);
  auto width = inputs.size(3);
  return inputs.as_strided(inputs.sizes(), {height * width, 1, width, 1});
}

std::optional<at::ScalarType> short_type_of(config::autocast_kind kind) {
  if (kind == config::autocast_kind::bf16)
    return at::kBFloat16;
  if (kind == config::autocast_kind::fp16)
    return at::kHalf;
  return std::nullopt;
}

/// Convolutions and products of this thread are in a shorter type while it
/// lives, if there is one.
class short_forward {
public:
  short_forward(std::optional<at::ScalarType> type, c10::DeviceType where)
    : on_(type.has_value()), where_(where) {
    if (!on_)
      return;
    at::autocast::set_autocast_dtype(where_, *type);
    at::autocast::set_autocast_enabled(where_, true);
  }

  ~short_forward() {
    if (!on_)
      return;
    at::autocast::set_autocast_enabled(where_, false);
    at::autocast::clear_cache(); // Of weights that will change.
  }

  short_forward(const short_forward&) = delete;
  short_forward& operator=(const short_forward&) = delete;

private:
  bool on_;
  c10::DeviceType where_;
};

std::shared_ptr<network>
network_on_device(const config::training_settings& settings, int64_t classes) {
  auto out = make_network(settings.network, classes, settings.dtype);
  if (auto where = device_named(settings.device); !where.is_cpu())
    out->module().to(where);
  return out;
}

/// Makes the offsets relative to the first element of the range.
std::vector<parameter_slot> within(std::vector<parameter_slot> slots,
                                   const element_range& range) {
  for (auto& slot : slots) {
    if (slot.offset < range.first || slot.offset + slot.count > range.end())
      throw run_error("parameter " + slot.name + " lies elsewhere");
    slot.offset -= range.first;
  }
  return slots;
}

element_range whole_of(const flat_layout& layout) {
  return {0, layout.count()};
}

} // namespace

at::Tensor pass_through(network& net, const part_range& range,
                        const at::Tensor& inputs, const pass_context& with) {
  const auto& parts = net.parts();
  if (range.first == 0 && range.last >= parts.size())
    return net.forward(inputs, with.places, with.drop);
  auto x = inputs;
  for (auto k = range.first; k < std::min(range.last, parts.size()); ++k)
    x = parts[k].forward(x, with);
  return x;
}

segment::segment(const config::training_settings& settings, int64_t classes,
                 const at::Tensor& frozen, part_range which,
                 std::optional<element_range> range)
  : device_(device_named(settings.device)),
    net_(network_on_device(settings, classes)),
    layout_(layout_of(*net_, settings)), which_{which.first,
                                                std::min(which.last,
                                                         net_->parts().size())},
    range_(range.value_or(whole_of(layout_))),
    whole_(which.first == 0 && which.last >= net_->parts().size()),
    slots_(within(own(layout_.slots()), range_)),
    statistic_slots_(own(layout_.statistics())),
    statistics_range_(statistics_of(*net_, layout_, which_)),
    parameters_(tensors_of(net_->module(), slots_, settings.dtype)),
    statistics_(tensors_of(net_->module(), statistic_slots_, settings.dtype)),
    frozen_(tensors_of(net_->module(), layout_.frozen(), settings.dtype)),
    short_type_(short_type_of(settings.autocast)),
    nothing_(at::empty(
      {0}, at::TensorOptions{to_aten(settings.dtype)}.device(device_))) {
  auto among_all = statistics_range_;
  among_all.first += layout_.parameter_count();
  statistic_slots_ = within(std::move(statistic_slots_), among_all);
  for (size_t i = 0; i < parameters_.size(); ++i)
    parameters_[i].register_hook(
      [this, i](const at::Tensor& x) { take_gradient(i, x); });
  for (auto& x : frozen_)
    x.set_requires_grad(false);
  if (frozen.defined())
    bind_frozen(frozen);
  if (has_frozen_statistics(net_->module()))
    still_.push_back(&net_->module());
  for (const auto& layer : net_->module().modules(/*include_self=*/false))
    if (has_frozen_statistics(*layer))
      still_.push_back(layer.get());
  set_training(true);
  end();
}

std::vector<parameter_slot>
segment::own(const std::vector<parameter_slot>& all) const {
  if (whole_)
    return all;
  std::vector<parameter_slot> out;
  std::ranges::copy_if(all, std::back_inserter(out), [this](const auto& slot) {
    return belongs(slot.name, *net_, which_);
  });
  return out;
}

element_range segment::tighten() {
  element_range out{0, 0};
  if (!slots_.empty()) {
    out.first = slots_.front().offset;
    out.count = slots_.back().offset + slots_.back().count - out.first;
  }
  for (auto& slot : slots_)
    slot.offset -= out.first;
  range_ = {range_.first + out.first, out.count};
  return out;
}

bool segment::has_frozen_statistics(const torch::nn::Module& layer) const {
  auto own = layer.buffers(/*recurse=*/false);
  return std::ranges::any_of(own, [this](const at::Tensor& buffer) {
    return std::ranges::any_of(
      frozen_, [&](const at::Tensor& x) { return x.is_same(buffer); });
  });
}

/// Binds the frozen tensors once: they stay bound as long as the segment lives.
void segment::bind_frozen(const at::Tensor& flat) {
  if (!layout_.fits_frozen(flat))
    throw run_error("the frozen weights do not fit the network");
  auto here = flat.to(device_);
  for (size_t i = 0; i < frozen_.size(); ++i)
    frozen_[i].set_data(layout_.view(here, layout_.frozen()[i]));
}

/// Has layers normalise by the batch (`on`), or by the running statistics.
void segment::set_training(bool on) {
  if (training_ == on)
    return;
  training_ = on;
  net_->module().train(on);
  for (auto* layer : still_) {
    layer->eval();
    for (const auto& inner : layer->children())
      inner->train(on);
  }
}

// -- batches ------------------------------------------------------------------

void segment::begin(const segment_batch& batch) {
  if (!layout_.fits(batch.weights, range_.count, device_) ||
      !layout_.fits(batch.gradient, range_.count, device_))
    throw run_error("the weights do not fit the network: it has " +
                    std::to_string(layout_.parameter_count()) + " parameters");
  if (!statistics_.empty() &&
      !layout_.fits(batch.statistics, statistics_range_.count, device_))
    throw run_error("the running statistics do not fit the network");
  batch_ = batch;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    parameters_[i].set_data(layout_.view(batch.weights, slots_[i]));
    places_.set(parameters_[i], layout_.view(batch.gradient, slots_[i]));
  }
  for (size_t i = 0; i < statistics_.size(); ++i)
    statistics_[i].set_data(
      layout_.view(batch.statistics, statistic_slots_[i]));
  written_.assign(parameters_.size(), false);
  settled_.assign(parameters_.size(), false);
  missing_ = parameters_.size();
  set_training(true);
}

/// Layers get places for their gradients only in the first micro-batch, since
/// they would overwrite the gradients of earlier ones; and never in a shorter
/// type, since they write only the type of the weights.
segment_pass segment::forward(const at::Tensor& inputs, const dropout_key& drop,
                              bool first) {
  static const gradient_places nowhere;
  check(batch_.cancel);
  torch::AutoGradMode with_grad{true};
  segment_pass out;
  out.inputs = inputs;
  if (which_.first > 0)
    out.inputs = inputs.detach().set_requires_grad(true);
  waits_for_weights waits{batch_.arriving, batch_.weights};
  short_forward shorter{short_type_, device_.type()};
  std::optional<dropout_key> key{drop};
  out.outputs = pass_through(*net_, which_, channels_last(out.inputs),
                             {first && !short_type_ ? places_ : nowhere, key});
  if (short_type_)
    out.outputs = out.outputs.to(at::kFloat);
  return out;
}

at::Tensor segment::backward(const segment_pass& pass,
                             const at::Tensor& outputs,
                             const at::Tensor& gradient, micro_batch_place at) {
  check(batch_.cancel);
  at_ = at;
  auto wanted = parameters_;
  if (pass.inputs.requires_grad())
    wanted.push_back(pass.inputs);
  at::Tensor out;
  if (whole_ || (outputs.requires_grad() && !wanted.empty())) {
    torch::autograd::variable_list given;
    if (gradient.defined())
      given.push_back(gradient);
    auto all = torch::autograd::grad(
      {outputs}, wanted, given, /*retain_graph=*/std::nullopt,
      /*create_graph=*/false, /*allow_unused=*/true);
    if (pass.inputs.requires_grad())
      out = all.back();
  }
  if (at.last)
    fill_gaps();
  return out;
}

/// Runs in backward as soon as all of parameter i's gradient is there: in its
/// place already, or where LibTorch put it.
void segment::take_gradient(size_t i, const at::Tensor& x) {
  check(batch_.cancel);
  const auto& place = places_[i];
  if (x.const_data_ptr() != place.const_data_ptr()) {
    torch::NoGradGuard no_grad;
    if (!at_.first && written_[i])
      place.add_(x);
    else
      place.copy_(x);
  }
  written_[i] = true;
  if (at_.last && batch_.ready)
    tell_ready(i);
}

/// Notes that the gradient of parameter i is final, and tells from where on all
/// gradients are: those behind it may have waited for it.
void segment::tell_ready(size_t i) {
  settled_[i] = true;
  auto before = missing_;
  while (missing_ > 0 && settled_[missing_ - 1])
    --missing_;
  if (missing_ < before)
    (*batch_.ready)(slots_[missing_].offset);
}

void segment::fill_gaps() {
  torch::NoGradGuard no_grad;
  for (size_t i = 0; i < parameters_.size(); ++i)
    if (!written_[i])
      places_[i].zero_();
  if (batch_.ready)
    (*batch_.ready)(0);
}

void segment::wait_for_all() {
  if (batch_.arriving && !(*batch_.arriving)(0, batch_.weights.nbytes()))
    throw cancelled{};
}

void segment::end() {
  for (auto& x : parameters_)
    x.set_data(nothing_);
  for (auto& x : statistics_)
    x.set_data(nothing_);
  places_.clear();
  batch_ = {};
}

// -- scores -------------------------------------------------------------------

void segment::bind(const at::Tensor& weights) {
  if (!layout_.fits(weights, device_))
    throw run_error("the weights do not fit the network: it has " +
                    std::to_string(layout_.parameter_count()) + " parameters");
  for (size_t i = 0; i < parameters_.size(); ++i)
    parameters_[i].set_data(layout_.view(weights, layout_.slots()[i]));
  for (size_t i = 0; i < statistics_.size(); ++i)
    statistics_[i].set_data(layout_.view(weights, layout_.statistics()[i]));
}

at::Tensor segment::score(const at::Tensor& inputs) {
  set_training(false);
  return net_->forward(channels_last(inputs));
}

} // namespace troupe::models
