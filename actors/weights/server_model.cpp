#include "actors/weights/server_model.hpp"

#include "actors/runtime/tensor_payload.hpp"
#include "actors/shards/file_places.hpp"
#include "actors/shards/optimizer_messages.hpp"
#include "config/patterns/key_patterns.hpp"
#include "config/text/failure.hpp"
#include "models/device/accelerator.hpp"
#include "models/engine/statistics.hpp"
#include "models/network.hpp"
#include "models/optim/aggregate.hpp"
#include "models/optim/clipping.hpp"
#include "models/optim/groups.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <functional>
#include <span>
#include <utility>

namespace troupe {

namespace {

void fill_weights(const models::flat_layout& layout,
                  const models::loaded_checkpoint& from,
                  const models::element_range& range, const at::Tensor& flat) {
  for (const auto* slots : {&layout.slots(), &layout.statistics()})
    fill(*slots, layout.dtype(), range, from, flat);
}

auto layout_for(const config::training_settings& settings, int64_t classes) {
  return std::make_shared<const models::flat_layout>(
    models::layout_of(settings, classes));
}

at::Tensor range_of(const at::Tensor& flat,
                    const models::element_range& range) {
  return flat.narrow(0, static_cast<int64_t>(range.first),
                     static_cast<int64_t>(range.count));
}

/// A range of a checkpoint's weights, followed by that of each slot. Before the
/// first step there are no slots.
payload shard_state_of(const config::training_settings& settings,
                       const models::flat_layout& layout,
                       const models::element_range& range,
                       const models::loaded_checkpoint& from) {
  std::vector<models::named_slot> slots;
  if (from.manifest.optimizer().steps() > 0) {
    shard_model smallest{settings, layout.dtype(), {0, 1}}; // Knows all names.
    slots = smallest.optimizer()->slots();
  }
  payload_buffer memory{
    {to_element_type(layout.dtype()), range.count * (slots.size() + 1)}};
  auto part = [flat = to_tensor(memory), &range](size_t i) {
    return range_of(flat, {i * range.count, range.count});
  };
  fill(layout.slots(), layout.dtype(), range, from, part(0));
  for (size_t i = 0; i < slots.size(); ++i)
    fill_slot(layout, slots[i].name, range, from, part(i + 1));
  return std::move(memory).seal();
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
  fill_weights(layout, from, {0, layout.count()}, to_tensor(memory));
  return std::move(memory).seal();
}

payload average_of(const models::loaded_checkpoint& from,
                   const config::training_settings& settings, int64_t classes) {
  if (settings.ema_decay == 0 || from.manifest.optimizer().steps() == 0)
    return {};
  auto layout = models::layout_of(settings, classes);
  payload_buffer memory{shape_of(layout)};
  auto flat = to_tensor(memory);
  fill_weights(layout, from, {0, layout.count()}, flat);
  fill_slot(layout, std::string{models::average_slot_name},
            {0, layout.parameter_count()}, from, layout.parameters_of(flat));
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

shard_beginnings
make_beginnings(const config::training_settings& settings, int64_t classes,
                uint32_t shards,
                std::shared_ptr<const models::loaded_checkpoint> from,
                const at::Tensor& first) {
  auto layout = models::layout_of(settings, classes);
  shard_beginnings out;
  out.ranges = cut_parameters(layout, shards);
  out.ranges.erase(out.ranges.begin());
  auto groups = models::groups_of(layout, settings);
  out.make = [=, ranges = out.ranges, layout = std::move(layout),
              from = std::move(from)](shard_id rank) {
    const auto& range = ranges.at(rank.value - 1);
    shard_state state;
    state.first = range.first;
    describe(models::within(groups, range), state);
    if (from == nullptr)
      return shard_beginning{std::move(state),
                             to_payload(range_of(first, range))};
    const auto& record = from->manifest.optimizer();
    state.weights = version{from->manifest.step()};
    state.optimizer_steps = record.steps();
    state.fragment_steps.assign(record.fragment_steps().begin(),
                                record.fragment_steps().end());
    state.with_slots = state.optimizer_steps > 0;
    return shard_beginning{std::move(state),
                           shard_state_of(settings, layout, range, *from)};
  };
  return out;
}

server_model::server_model(const config::training_settings& settings,
                           int64_t classes, payload_memory_ptr memory,
                           const shared_work& with, const at::Tensor& first)
  : server_model(settings, layout_for(settings, classes), std::move(memory),
                 with) {
  auto whole =
    first.defined() ? first : models::draw_weights(settings, classes).trained;
  auto own = versions_->step_buffer();
  copy_numbers(own, range_of(whole, own_range()));
  publish(version{0}, std::move(own));
}

server_model::server_model(const config::training_settings& settings,
                           int64_t classes,
                           const models::loaded_checkpoint& from,
                           payload_memory_ptr memory, const shared_work& with)
  : server_model(settings, layout_for(settings, classes), std::move(memory),
                 with) {
  part_.load(*layout_, from);
  auto own = versions_->step_buffer();
  auto read = at::empty({own.numel()}, own.options().device(at::kCPU));
  fill_weights(*layout_, from, own_range(), read);
  copy_numbers(own, read);
  publish(version{from.manifest.step()}, std::move(own));
}

server_model::server_model(const config::training_settings& settings,
                           layout_ptr layout, payload_memory_ptr memory,
                           const shared_work& with)
  : settings_(settings), device_(models::device_named(settings.device)),
    layout_(std::move(layout)) {
  auto range = cut_parameters(*layout_, with.shards).front();
  if (with.shards > 1)
    first_ = range.first;
  if (with.shards > 1 || settings.ema_decay > 0)
    wholes_ = std::make_unique<models::flat_pool>(layout_->count(),
                                                  layout_->dtype(), memory);
  versions_ = std::make_unique<weights_versions>(
    own_range().count, layout_->dtype(), device_, std::move(memory),
    with.remote_readers);
  server_range own{
    range, models::within(models::groups_of(*layout_, settings), range)};
  if (settings.fragments > 1)
    own.cuts =
      models::fragments{*layout_, settings.fragments}.within(own_range());
  part_ = {settings, layout_->dtype(), std::move(own), with.across};
}

payload_shape server_model::shape() const {
  if (!has_weights())
    return {};
  return {to_element_type(layout_->dtype()), own_range().count};
}

payload_shape server_model::shape(uint32_t fragment) const {
  auto out = shape();
  out.count = part_.count_of(fragment, out.count);
  return out;
}

at::Tensor server_model::next_buffer() {
  if (!has_weights())
    return {};
  return versions_->step_buffer();
}

at::Tensor server_model::newest_flat() const {
  return has_weights() ? versions_->newest_flat() : at::Tensor{};
}

gradient_facts server_model::look_at(const payload& gradient,
                                     uint32_t fragment) const {
  auto out = part_.look_at(gradient, fragment);
  if (gradient.finite().value_or(false))
    return out;
  if (auto its = statistics_in(gradient, fragment))
    out.is_sound =
      out.is_sound && models::stays_finite(statistics_of(newest_flat()), *its);
  return out;
}

double server_model::scale_of(const models::exact_sum& squares) const {
  return models::clip_scale(*settings_.clip_norm, squares.value());
}

std::vector<double>
server_model::factors_of(std::span<const models::parameter_squares> all) const {
  auto count = layout_->slots().size();
  for (const auto& one : all)
    if (one.parameter >= count)
      throw run_error("a shard has measured parameter " +
                      std::to_string(one.parameter) + " of a network of " +
                      std::to_string(count));
  return models::step_factors(all, count);
}

void server_model::apply(const at::Tensor& next, const mean_of& mean,
                         const step_terms& with) {
  auto before = newest_flat();
  part_.apply(next, before, mean, with);
  if (!has_weights() || layout_->statistics().empty())
    return;
  std::vector<at::Tensor> parts;
  std::vector<double> shares;
  for (size_t i = 0; i < mean.gradients.size(); ++i) {
    auto fragment = mean.fragments.empty() ? 0 : mean.fragments[i];
    if (auto its = statistics_in(mean.gradients[i], fragment)) {
      parts.push_back(std::move(*its));
      shares.push_back(mean.shares[i]);
    }
  }
  if (!parts.empty())
    models::merge_statistics(settings_.buffers, statistics_of(next), parts,
                             shares);
  else if (next.const_data_ptr() != before.const_data_ptr())
    copy_numbers(statistics_of(next), statistics_of(before));
}

void server_model::step(version makes, std::vector<payload> gradients,
                        std::span<const double> shares, const step_terms& with,
                        std::span<const uint32_t> fragments) {
  auto next = next_buffer();
  apply(next, {gradients, shares, fragments}, with);
  gradients.clear();
  publish(makes, std::move(next));
}

void server_model::publish(version makes, at::Tensor next) {
  if (has_weights())
    versions_->publish(makes, std::move(next));
}

void server_model::describe(snapshot& out) const {
  if (!has_weights())
    return;
  out.layout = layout_;
  out.weights = newest();
  out.frozen = frozen_;
  for (auto& name : part_.slot_names())
    out.slots.push_back({std::move(name), {}});
  auto& optimizer = *out.manifest.mutable_optimizer();
  optimizer.set_name(std::string{part_.name()});
  optimizer.set_steps(part_.steps());
  for (auto steps : part_.steps_of_fragments())
    optimizer.add_fragment_steps(steps);
}

void server_model::save(snapshot& out) const {
  describe(out);
  auto slots = part_.copy_slots();
  for (size_t i = 0; i < slots.size(); ++i)
    out.slots[i].flat = std::move(slots[i]);
}

state_request server_model::draft(snapshot& out,
                                  const std::filesystem::path& folder) const {
  describe(out);
  out.weights = {};
  auto batches = static_cast<int64_t>(out.manifest.step());
  auto tensors = state_dict_of(out, batches, false);
  out.drafts = std::make_shared<models::checkpoint_drafts>(
    folder, tensors, slots_of(out), other_names_of(out));
  auto& [model, optimizer] = *out.drafts;
  for (const auto& one : tensors)
    if (!one.bytes.empty()) // A counter, or not trained.
      model.put(model.position(one.name), one.bytes);
  auto places = places_in(out);
  auto width = models::size_of(layout_->dtype());
  auto first = first_ * width;
  auto own = newest().host_bytes(); // Its parameters, then the statistics.
  put_range(model, places.weights.parts, width, first,
            own.first(layout_->parameter_count() * width - first));
  for (const auto& part : layout_->statistics())
    model.put(model.position(part.name),
              own.subspan(part.offset * width - first, part.count * width));
  auto slots = part_.slots();
  for (size_t i = 0; i < slots.size(); ++i)
    put_range(optimizer, std::span{places.slots.parts}.subspan(i, 1), width,
              first, to_payload(slots[i].flat).host_bytes());
  return places;
}

at::Tensor server_model::make_whole() const {
  auto out = wholes_->take_tensor();
  auto own = to_tensor(newest());
  copy_numbers(out.narrow(0, static_cast<int64_t>(first_), own.numel()), own);
  return out;
}

at::Tensor server_model::make_whole_average() const {
  auto out = wholes_->take_tensor();
  auto own = to_tensor(to_payload(part_.average().value()));
  copy_numbers(out.narrow(0, static_cast<int64_t>(first_), own.numel()), own);
  copy_numbers(layout_->statistics_of(out), statistics_of(to_tensor(newest())));
  return out;
}

bool server_model::is_readable() const try {
  newest().host_bytes();
  return true;
} catch (const run_error&) {
  return false;
}

std::optional<std::string> server_model::weights_sha256() const {
  if (!has_weights() || !is_readable())
    return std::nullopt;
  return models::weights_sha256({to_tensor(newest()), to_tensor(frozen_)},
                                *layout_);
}

/// The statistics behind a gradient of this fragment, if it has some.
std::optional<at::Tensor> server_model::statistics_in(const payload& gradient,
                                                      uint32_t fragment) const {
  const auto& cuts = part_.cuts();
  if (!has_weights() || layout_->statistics().empty() ||
      (cuts && !cuts->has_statistics(fragment)))
    return std::nullopt;
  auto flat = to_tensor(gradient, device_);
  auto first = cuts ? static_cast<int64_t>(cuts->parameters(fragment).count)
                    : static_cast<int64_t>(layout_->parameter_count() - first_);
  return flat.narrow(0, first, flat.numel() - first);
}

// The statistics follow the lead's range of the parameters, the last one.
at::Tensor server_model::statistics_of(const at::Tensor& flat) const {
  auto first = static_cast<int64_t>(layout_->parameter_count() - first_);
  return flat.narrow(0, first, flat.numel() - first);
}

} // namespace troupe
