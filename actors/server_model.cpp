#include "actors/server_model.hpp"

#include "actors/tensor_payload.hpp"
#include "config/failure.hpp"
#include "models/aggregate.hpp"
#include "models/network.hpp"
#include "models/statistics.hpp"

#include <torch/torch.h>

#include <cstring>

namespace troupe {

namespace {

/// Copies those tensors of a checkpoint into a flat buffer.
void fill(const models::flat_layout& layout,
          const std::vector<models::parameter_slot>& slots,
          const models::tensor_file& file, const std::string& where,
          const std::function<std::string(const std::string&)>& key_of,
          const at::Tensor& flat) {
  auto width = models::size_of(layout.dtype());
  auto* target = static_cast<std::byte*>(flat.mutable_data_ptr());
  for (const auto& slot : slots) {
    auto key = key_of(slot.name);
    const auto* tensor = file.find(key);
    if (tensor == nullptr || tensor->bytes.size() != slot.count * width)
      throw run_error(where + ": no tensor '" + key + "' of " +
                      std::to_string(slot.count) +
                      " elements: not a checkpoint of this network; resume "
                      "with the network that it was trained with");
    std::memcpy(target + slot.offset * width, tensor->bytes.data(),
                tensor->bytes.size());
  }
}

void fill_weights(const models::flat_layout& layout,
                  const models::loaded_checkpoint& from,
                  const at::Tensor& flat) {
  auto where = from.path.string();
  fill(layout, layout.slots(), from.model, where, std::identity{}, flat);
  fill(layout, layout.statistics(), from.model, where, std::identity{}, flat);
}

payload_shape shape_of(const models::flat_layout& layout) {
  return {to_element_type(layout.dtype()), layout.count()};
}

} // namespace

models::flat_layout layout_of(const config::training_settings& settings,
                              int64_t classes) {
  auto net = models::make_network(settings.network, classes, settings.dtype);
  return models::flat_layout::from(net->module());
}

payload_shape shape_of_weights(const config::training_settings& settings,
                               int64_t classes) {
  return shape_of(layout_of(settings, classes));
}

payload weights_of(const models::loaded_checkpoint& from,
                   const config::training_settings& settings, int64_t classes) {
  auto layout = layout_of(settings, classes);
  payload_buffer memory{shape_of(layout)};
  fill_weights(layout, from, to_tensor(memory));
  return std::move(memory).seal();
}

server_model::server_model(const config::training_settings& settings,
                           int64_t classes, payload_memory_ptr memory)
  : settings_(settings) {
  auto net = models::make_network(settings.network, classes, settings.dtype);
  models::initialise(*net, settings.seed);
  layout_ = std::make_shared<const models::flat_layout>(
    models::flat_layout::from(net->module()));
  store_ = std::make_unique<models::weights_store>(
    layout_->count(), layout_->dtype(), std::move(memory));
  optimizer_ = models::make_optimizer(settings, *layout_);
  auto first = store_->next_buffer();
  first.copy_(models::gather(net->module(), *layout_));
  publish(version{0}, std::move(first));
}

server_model::server_model(const config::training_settings& settings,
                           int64_t classes,
                           const models::loaded_checkpoint& from,
                           payload_memory_ptr memory)
  : server_model(settings, classes, std::move(memory)) {
  const auto& record = from.manifest.optimizer();
  auto where = from.path.string();
  if (record.name() != optimizer_->name())
    throw run_error(where + ": made with optimizer '" + record.name() +
                    "', this run uses '" + std::string{optimizer_->name()} +
                    "'; give --optimizer " + record.name());
  auto weights = store_->next_buffer();
  fill_weights(*layout_, from, weights);
  auto slots = optimizer_->slots();
  if (record.steps() > 0) {
    for (auto& slot : slots) {
      auto key = [&](const std::string& parameter) {
        return models::slot_key(slot.name, parameter);
      };
      fill(*layout_, layout_->slots(), from.optimizer, where, key, slot.flat);
    }
  }
  optimizer_->load(slots, record.steps());
  publish(version{from.manifest.step()}, std::move(weights));
}

payload_shape server_model::shape() const {
  return has_weights() ? shape_of(*layout_) : payload_shape{};
}

errc server_model::check(const payload& gradient) const {
  if (gradient.shape() != shape())
    return errc::wrong_size;
  if (!has_weights())
    return errc::none;
  return models::all_finite(to_tensor(gradient)) ? errc::none
                                                 : errc::not_finite;
}

void server_model::apply(version makes, std::span<const payload> gradients,
                         std::span<const uint64_t> samples) {
  if (!has_weights())
    return;
  std::vector<at::Tensor> parts;
  for (const auto& gradient : gradients)
    parts.push_back(to_tensor(gradient));
  auto next = store_->next_buffer();
  optimizer_->step(next, store_->newest()->flat, parts, samples, settings_.lr);
  models::merge_statistics(*layout_, settings_.buffers, next, parts, samples);
  publish(makes, std::move(next));
}

void server_model::save(snapshot& out) const {
  if (!has_weights())
    return;
  out.layout = layout_;
  out.weights = newest_;
  for (const auto& slot : optimizer_->slots())
    out.slots.push_back({slot.name, to_payload(slot.flat.clone())});
  out.manifest.mutable_optimizer()->set_name(std::string{optimizer_->name()});
  out.manifest.mutable_optimizer()->set_steps(optimizer_->steps());
}

std::optional<std::string> server_model::weights_sha256() const {
  if (!has_weights())
    return std::nullopt;
  return models::weights_sha256(to_tensor(newest_), *layout_);
}

void server_model::publish(version id, at::Tensor flat) {
  newest_ = to_payload(store_->publish(id, std::move(flat))->flat);
}

} // namespace troupe
