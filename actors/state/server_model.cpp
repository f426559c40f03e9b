#include "actors/state/server_model.hpp"

#include "actors/runtime/tensor_payload.hpp"
#include "config/text/failure.hpp"
#include "config/values/key_patterns.hpp"
#include "models/engine/statistics.hpp"
#include "models/network.hpp"
#include "models/optim/aggregate.hpp"
#include "models/optim/clipping.hpp"
#include "models/optim/decay.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <functional>
#include <span>

namespace troupe {

namespace {

void fill_weights(const models::flat_layout& layout,
                  const models::loaded_checkpoint& from,
                  const at::Tensor& flat) {
  models::element_range all{0, layout.count()};
  auto where = from.path.string();
  for (const auto* slots : {&layout.slots(), &layout.statistics()})
    fill(*slots, layout.dtype(), all, from.model, where, std::identity{}, flat);
}

/// Shards of ranks 1, 2, ... own what `[placement]` gives them.
std::vector<models::element_range>
cut_by_owners(const models::flat_layout& layout, uint32_t shards) {
  std::vector<models::element_range> out(1);
  uint64_t first = 0;
  for (uint32_t rank = 1; rank < shards; ++rank) {
    auto its = layout.owned().find(rank);
    out.push_back({first, its == layout.owned().end() ? 0 : its->second});
    first = out.back().end();
  }
  out.front() = {first, layout.parameter_count() - first};
  return out;
}

} // namespace

payload_shape shape_of(const models::flat_layout& layout) {
  return {to_element_type(layout.dtype()), layout.count()};
}

payload_shape shape_of_weights(const config::training_settings& settings,
                               int64_t classes) {
  return shape_of(models::layout_of(settings, classes));
}

payload weights_of(const models::loaded_checkpoint& from,
                   const config::training_settings& settings, int64_t classes) {
  auto layout = models::layout_of(settings, classes);
  payload_buffer memory{shape_of(layout)};
  fill_weights(layout, from, to_tensor(memory));
  return std::move(memory).seal();
}

std::vector<models::element_range>
cut_parameters(const models::flat_layout& layout, uint32_t shards) {
  if (shards > 1 && !layout.owned().empty())
    return cut_by_owners(layout, shards);
  auto out = models::cut(layout.parameter_count(),
                         models::size_of(layout.dtype()), shards);
  std::rotate(out.begin(), out.end() - 1, out.end());
  return out;
}

std::vector<shard_beginning>
make_beginnings(const config::training_settings& settings, int64_t classes,
                uint32_t shards, const models::loaded_checkpoint* from,
                const at::Tensor& first) {
  auto model = from ? server_model{settings, classes, *from}
                    : server_model{settings, classes, heap_memory(), {}, first};
  auto weights = model.newest_flat();
  const auto& layout = *model.layout();
  auto ranges = cut_parameters(layout, shards);
  auto plain = models::without_decay(layout, settings.weight_decay_exclude);
  std::vector<shard_beginning> out;
  for (const auto& range : std::span{ranges}.subspan(1)) {
    shard_model part{settings, layout.dtype(), range,
                     models::within(plain, range)};
    if (from != nullptr)
      part.load(layout, *from);
    auto slots = part.optimizer()->slots();
    std::vector<at::Tensor> all{weights.narrow(
      0, static_cast<int64_t>(range.first), static_cast<int64_t>(range.count))};
    for (const auto& slot : slots)
      all.push_back(slot.flat);
    shard_state state{version{from ? from->manifest.step() : 0},
                      part.optimizer()->steps(),
                      true,
                      {}};
    for (const auto& one : part.without_decay())
      state.without_decay.insert(state.without_decay.end(),
                                 {one.first, one.end()});
    out.push_back({range, std::move(state), to_payload(at::cat(all))});
  }
  return out;
}

server_model::server_model(const config::training_settings& settings,
                           int64_t classes, payload_memory_ptr memory,
                           const shared_work& with, const at::Tensor& first)
  : settings_(settings) {
  auto net = models::make_network(settings.network, classes, settings.dtype);
  if (!first.defined())
    models::initialise(*net, settings.seed);
  layout_ = std::make_shared<const models::flat_layout>(
    models::layout_of(*net, settings));
  auto range = cut_parameters(*layout_, with.shards).front();
  if (with.shards > 1) {
    first_ = range.first;
    wholes_ = std::make_unique<models::flat_pool>(layout_->count(),
                                                  layout_->dtype(), memory);
  }
  store_ = std::make_unique<models::weights_store>(
    layout_->count() - first_, layout_->dtype(), std::move(memory));
  auto plain = models::without_decay(*layout_, settings.weight_decay_exclude);
  part_ = {settings, layout_->dtype(), range, models::within(plain, range),
           first_,   with.across};
  publish_first(first.defined() ? first
                                : models::gather(net->module(), *layout_),
                version{0});
}

server_model::server_model(const config::training_settings& settings,
                           int64_t classes,
                           const models::loaded_checkpoint& from,
                           payload_memory_ptr memory, const shared_work& with)
  : server_model(settings, classes, std::move(memory), with) {
  part_.load(*layout_, from);
  publish_first(to_tensor(weights_of(from, settings, classes)),
                version{from.manifest.step()});
}

void server_model::publish_first(const at::Tensor& whole, version id) {
  auto first = store_->next_buffer();
  first.copy_(whole.narrow(0, static_cast<int64_t>(first_), first.numel()));
  publish(id, std::move(first));
}

payload_shape server_model::shape() const {
  if (!has_weights())
    return {};
  return {to_element_type(layout_->dtype()), layout_->count() - first_};
}

at::Tensor server_model::next_buffer() {
  if (!has_weights())
    return {};
  if (newest_.owner().use_count() > 1)
    return store_->next_buffer();
  newest_ = {};
  auto out = store_->step_buffer();
  newest_ = to_payload(newest_flat());
  return out;
}

at::Tensor server_model::newest_flat() const {
  return has_weights() ? store_->newest()->flat : at::Tensor{};
}

bool server_model::sound(const payload& gradient) const {
  if (gradient.finite())
    return *gradient.finite();
  return part_.sound(gradient) &&
         (!has_weights() || layout_->statistics().empty() ||
          models::all_finite(statistics_of(to_tensor(gradient))));
}

double server_model::scale_of(const models::exact_sum& squares) const {
  return models::clip_scale(*settings_.clip_norm, squares.value());
}

void server_model::apply(const at::Tensor& next,
                         std::span<const payload> gradients,
                         std::span<const double> shares, double lr,
                         double scale) {
  part_.apply(next, newest_flat(), gradients, shares, lr, scale);
  if (!has_weights() || layout_->statistics().empty())
    return;
  std::vector<at::Tensor> parts;
  for (const auto& gradient : gradients)
    parts.push_back(statistics_of(to_tensor(gradient)));
  models::merge_statistics(settings_.buffers, statistics_of(next), parts,
                           shares);
}

void server_model::step(version makes, std::vector<payload> gradients,
                        std::span<const double> shares, double lr,
                        double scale) {
  auto next = next_buffer();
  apply(next, gradients, shares, lr, scale);
  gradients.clear();
  publish(makes, std::move(next));
}

void server_model::publish(version makes, at::Tensor next) {
  if (has_weights())
    newest_ = to_payload(store_->publish(makes, std::move(next))->flat);
}

void server_model::describe(snapshot& out) const {
  if (!has_weights())
    return;
  const auto& optimizer = *part_.optimizer();
  out.layout = layout_;
  out.weights = newest_;
  out.frozen = frozen_;
  for (const auto& slot : optimizer.slots())
    out.slots.push_back({slot.name, {}});
  out.manifest.mutable_optimizer()->set_name(std::string{optimizer.name()});
  out.manifest.mutable_optimizer()->set_steps(optimizer.steps());
}

void server_model::save(snapshot& out) const {
  describe(out);
  std::vector<at::Tensor> slots;
  for (auto& slot : out.slots) {
    slots.push_back(
      at::empty({static_cast<int64_t>(layout_->parameter_count())},
                newest_flat().options()));
    slot.flat = to_payload(slots.back());
  }
  part_.save(slots);
}

void server_model::save(models::tensor_draft& to) const {
  uint64_t at = first_ * models::size_of(layout_->dtype());
  for (const auto& slot : part_.optimizer()->slots()) {
    const auto* bytes =
      static_cast<const std::byte*>(slot.flat.const_data_ptr());
    to.put(at, {bytes, slot.flat.nbytes()});
    at += slot_bytes();
  }
}

uint64_t server_model::slot_bytes() const {
  return layout_->parameter_count() * models::size_of(layout_->dtype());
}

at::Tensor server_model::make_whole() const {
  auto out = wholes_->take();
  auto own = newest_flat();
  out.narrow(0, static_cast<int64_t>(first_), own.numel()).copy_(own);
  return out;
}

std::optional<std::string> server_model::weights_sha256() const {
  if (!has_weights())
    return std::nullopt;
  return sha256_of(newest_);
}

std::string server_model::sha256_of(const payload& whole) const {
  return models::weights_sha256({to_tensor(whole), to_tensor(frozen_)},
                                *layout_);
}

// They follow the lead's range, which is the last.
at::Tensor server_model::statistics_of(const at::Tensor& flat) const {
  auto first = static_cast<int64_t>(layout_->parameter_count() - first_);
  return flat.narrow(0, first, flat.numel() - first);
}

} // namespace troupe
