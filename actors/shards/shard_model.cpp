#include "actors/shards/shard_model.hpp"

#include "actors/runtime/tensor_payload.hpp"
#include "config/text/failure.hpp"
#include "config/values/outliers.hpp"
#include "models/device/accelerator.hpp"
#include "models/guarded.hpp"
#include "models/optim/aggregate.hpp"
#include "models/optim/clipping.hpp"

#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <utility>

namespace troupe {

namespace {

/// For the optimiser a range is a network with one parameter.
models::flat_layout layout_of(const models::element_range& range,
                              config::scalar_type dtype) {
  return models::flat_layout::from(
    {{"range", {static_cast<int64_t>(range.count)}}}, dtype);
}

std::unique_ptr<models::optimizer>
optimizer_of(const config::training_settings& settings,
             const models::flat_layout& layout,
             const models::parameter_groups& groups) {
  return groups.terms.empty()
           ? models::make_optimizer(settings, layout)
           : models::make_optimizer(settings, layout, groups);
}

/// A flat tensor with the numbers of one range of all parameters.
struct flat_range {
  const std::vector<models::parameter_slot>& slots;
  config::scalar_type dtype;
  const models::element_range& range;
  const at::Tensor& flat;
};

/// @param read Takes a tensor of the file, its first byte that is wanted, and
/// where these bytes go.
template <class File, class KeyOf, class Read>
void fill_range(const flat_range& to, const File& file,
                const std::filesystem::path& where, const KeyOf& key_of,
                const Read& read) {
  const auto& range = to.range;
  auto width = models::size_of(to.dtype);
  auto* target = static_cast<std::byte*>(to.flat.mutable_data_ptr());
  for (const auto& slot : to.slots) {
    auto key = key_of(slot.name);
    const auto* tensor = file.find(key);
    if (tensor == nullptr || models::bytes_of(*tensor) != slot.count * width)
      throw run_error(where.string() + ": no tensor '" + key + "' of " +
                      std::to_string(slot.count) +
                      " elements: not a checkpoint of this network; resume "
                      "with the network that it was trained with");
    auto first = std::max(slot.offset, range.first);
    auto end = std::min(slot.offset + slot.count, range.end());
    if (first < end)
      read(*tensor, (first - slot.offset) * width,
           std::span{target + (first - range.first) * width,
                     (end - first) * width});
  }
}

} // namespace

void fill(const std::vector<models::parameter_slot>& slots,
          config::scalar_type dtype, const models::element_range& range,
          const models::loaded_checkpoint& from, const at::Tensor& flat) {
  auto copy = [](const models::named_tensor& which, uint64_t first,
                 std::span<std::byte> to) {
    std::memcpy(to.data(), which.bytes.data() + first, to.size());
  };
  fill_range({slots, dtype, range, flat}, from.model, from.path,
             std::identity{}, copy);
}

void fill_slot(const models::flat_layout& whole, const std::string& slot,
               const models::element_range& range,
               const models::loaded_checkpoint& from, const at::Tensor& flat) {
  auto key_of = [&](const std::string& parameter) {
    return models::slot_key(slot, parameter);
  };
  auto read = [&](const models::named_tensor& which, uint64_t first,
                  std::span<std::byte> to) {
    from.optimizer.read(which, first, to);
  };
  fill_range({whole.slots(), whole.dtype(), range, flat}, from.optimizer,
             from.path, key_of, read);
}

step_terms terms_of(const shard_step& order) {
  step_terms out{
    order.lr, order.scale, {order.factors.begin(), order.factors.end()}};
  if (double momentum = order.momentum; momentum >= 0)
    out.momentum = momentum;
  out.use = order.use;
  return out;
}

shard_model::shard_model(const config::training_settings& settings,
                         config::scalar_type dtype, models::element_range range,
                         const models::parameter_groups& groups,
                         range_passes passes)
  : range_(range), device_(models::device_named(settings.device)),
    passes_(std::move(passes)),
    watches_norms_(config::parse_outliers(settings.outliers).has_value()),
    optimizer_(optimizer_of(settings, layout_of(range, dtype), groups)) {
  // nop
}

void shard_model::load(const models::flat_layout& whole,
                       const models::loaded_checkpoint& from, uint64_t steps) {
  const auto& record = from.manifest.optimizer();
  auto where = from.path.string();
  if (record.name() != optimizer_->name())
    throw run_error(where + ": made with optimizer '" + record.name() +
                    "', this run uses '" + std::string{optimizer_->name()} +
                    "'; give --optimizer " + record.name());
  auto slots = optimizer_->slots();
  for (auto& slot : slots)
    slot.flat = slot.flat.cpu(); // To be read into from the file.
  if (steps > 0)
    for (auto& slot : slots)
      fill_slot(whole, slot.name, range_, from, slot.flat);
  optimizer_->load(slots, steps);
}

// Squares that add up to a number are those of numbers. Where they do not, the
// numbers may still be finite, and too large to be squared.
gradient_facts shard_model::look_at(const payload& gradient) const {
  gradient_facts out;
  if (watches_norms_) {
    constexpr double alone = 1; // Its own mean, whatever its share.
    out.squares = squares({&gradient, 1}, {&alone, 1});
    if (std::isfinite(out.squares.value()))
      return out;
  }
  out.is_sound = is_sound(gradient);
  return out;
}

bool shard_model::is_sound(const payload& gradient) const {
  if (gradient.finite().value_or(false))
    return true; // Else the statistics may be what is not finite.
  return !optimizer_ || models::guarded("checking a gradient", [&] {
    return models::all_finite(own(gradient), passes_.across);
  });
}

auto shard_model::parts_of(std::span<const payload> gradients,
                           std::span<const double> shares) const -> mean_parts {
  mean_parts out;
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (i > 0 && gradients[i].is_same(gradients[i - 1])) {
      out.shares.back() += shares[i]; // They came already added up.
      continue;
    }
    out.gradients.push_back(own(gradients[i]));
    out.shares.push_back(shares[i]);
  }
  return out;
}

void shard_model::apply(const at::Tensor& next, const at::Tensor& current,
                        std::span<const payload> gradients,
                        std::span<const double> shares,
                        const step_terms& with) {
  if (!optimizer_)
    return;
  models::guarded("a step of the parameter server", [&] {
    auto parts = parts_of(gradients, shares);
    if (with.momentum)
      optimizer_->set_momentum(*with.momentum);
    optimizer_->use_momentum(with.use);
    optimizer_->step(own(next), own(current), parts.gradients, parts.shares,
                     with.lr, with.scale, passes_.across, with.factors);
  });
}

std::vector<models::parameter_squares>
shard_model::measure(const at::Tensor& current,
                     std::span<const payload> gradients,
                     std::span<const double> shares, double scale) {
  return models::guarded("measuring a step of the parameter server", [&] {
    auto parts = parts_of(gradients, shares);
    return optimizer_->measure(own(current), parts.gradients, parts.shares,
                               scale, passes_.across);
  });
}

models::exact_sum shard_model::squares(std::span<const payload> gradients,
                                       std::span<const double> shares) const {
  if (!optimizer_)
    return {};
  return models::guarded("computing the norm of a gradient", [&] {
    auto parts = parts_of(gradients, shares);
    return models::squares_of_mean(parts.gradients, parts.shares);
  });
}

std::vector<payload> shard_model::copy_slots() const {
  std::vector<payload> out;
  if (!optimizer_)
    return out;
  for (const auto& slot : optimizer_->slots()) {
    auto copy = models::guarded("copying the optimiser's state",
                                [&] { return at::empty_like(slot.flat); });
    copy_numbers(copy, slot.flat);
    out.push_back(to_payload(std::move(copy)));
  }
  return out;
}

at::Tensor shard_model::own(const payload& gradient) const {
  return own(to_tensor(gradient, device_));
}

at::Tensor shard_model::own(const at::Tensor& buffer, uint64_t first) const {
  if (static_cast<uint64_t>(buffer.numel()) == range_.count)
    return buffer;
  return buffer.narrow(0, static_cast<int64_t>(range_.first - first),
                       static_cast<int64_t>(range_.count));
}

} // namespace troupe
