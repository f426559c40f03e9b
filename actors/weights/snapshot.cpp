#include "actors/weights/snapshot.hpp"

#include "models/optim/aggregate.hpp"
#include "models/storage/checkpoint.hpp"
#include "models/storage/sha256.hpp"

#include <ATen/ops/from_blob.h>

#include <cstddef>
#include <cstring>
#include <filesystem>
#include <functional>
#include <span>
#include <utility>

namespace troupe {

namespace {

bool all_finite(std::span<const std::byte> bytes, config::scalar_type type) {
  auto count = static_cast<int64_t>(bytes.size() / models::size_of(type));
  auto dtype = type == config::scalar_type::float64 ? at::kDouble : at::kFloat;
  return models::all_finite(
    at::from_blob(const_cast<std::byte*>(bytes.data()), {count}, dtype));
}

/// The bytes of a part, a block at a time, wherever they lie.
using reader =
  std::function<void(const models::parameter_slot&,
                     const std::function<void(std::span<const std::byte>)>&)>;

reader reader_of(const payload& flat) {
  return [&flat](const models::parameter_slot& part, const auto& to) {
    auto width = size_of(flat.shape().type);
    to(flat.host_bytes().subspan(part.offset * width, part.count * width));
  };
}

reader weights_of(const snapshot& state) {
  if (!state.drafts)
    return reader_of(state.weights);
  return [&state](const models::parameter_slot& part, const auto& to) {
    const auto& file = state.drafts->model;
    file.read(file.position(part.name),
              part.count * models::size_of(state.layout->dtype()), to);
  };
}

reader reader_of(const snapshot& state, size_t slot) {
  if (!state.drafts)
    return reader_of(state.slots[slot].flat);
  return [&state, slot](const models::parameter_slot& part, const auto& to) {
    const auto& file = state.drafts->optimizer;
    file.read(
      file.position(models::slot_key(state.slots[slot].name, part.name)),
      part.count * models::size_of(state.layout->dtype()), to);
  };
}

/// Adds the trained tensors of this kind, in the order of the state dict,
/// wherever they lie.
void update(models::sha256& sum, const models::flat_layout& layout,
            models::tensor_kind kind, const reader& read) {
  for (const auto& x : layout.state_dict())
    if (x.kind == kind && !x.frozen && x.same_as.empty())
      read(x, [&](std::span<const std::byte> bytes) { sum.update(bytes); });
}

/// The first of these parts that is not finite; null if all are.
const models::parameter_slot*
culprit(const std::vector<models::parameter_slot>& all,
        config::scalar_type type, const reader& read) {
  for (const auto& part : all) {
    auto finite = true;
    read(part, [&](std::span<const std::byte> bytes) {
      finite = finite && all_finite(bytes, type);
    });
    if (!finite)
      return &part;
  }
  return nullptr;
}

/// A tensor that has another name already.
bool is_shared(const models::parameter_slot& part) {
  return part.kind != models::tensor_kind::counter && !part.same_as.empty();
}

const char* dtype_name(config::scalar_type type) {
  return type == config::scalar_type::float64 ? "F64" : "F32";
}

/// Adds numbers as float32.
void update_rounded(models::sha256& sum, std::span<const std::byte> bytes,
                    config::scalar_type type) {
  if (type != config::scalar_type::float64)
    return sum.update(bytes);
  std::vector<float> rounded(bytes.size() / sizeof(double));
  for (size_t i = 0; i < rounded.size(); ++i) {
    double x = 0;
    std::memcpy(&x, bytes.data() + i * sizeof x, sizeof x);
    rounded[i] = static_cast<float>(x);
  }
  sum.update(std::as_bytes(std::span{rounded}));
}

} // namespace

models::named_tensor tensor_of(const models::parameter_slot& part,
                               config::scalar_type type, const payload& flat,
                               std::string key) {
  models::named_tensor out{std::move(key), dtype_name(type), part.shape, {}};
  auto width = models::size_of(type);
  if (flat)
    out.bytes =
      flat.host_bytes().subspan(part.offset * width, part.count * width);
  return out;
}

namespace {

/// The place of a constant is in bytes, whatever its type.
models::named_tensor constant_of(const models::parameter_slot& part,
                                 const payload& frozen) {
  models::named_tensor out{part.name, part.dtype, part.shape, {}};
  if (frozen)
    out.bytes = frozen.host_bytes().subspan(part.offset, part.count);
  return out;
}

} // namespace

// A version has seen as many batches as its number says, and a frozen layer
// none.
std::vector<models::named_tensor>
state_dict_of(const snapshot& state, const int64_t& batches, bool all_names) {
  static constexpr int64_t none = 0;
  std::vector<models::named_tensor> out;
  if (!state.layout)
    return out;
  for (const auto& part : state.layout->state_dict())
    if (!all_names && is_shared(part))
      continue;
    else if (part.kind == models::tensor_kind::counter)
      out.push_back(
        {part.name, "I64", part.shape,
         std::as_bytes(std::span{part.frozen ? &none : &batches, 1})});
    else if (part.kind == models::tensor_kind::constant)
      out.push_back(constant_of(part, state.frozen));
    else
      out.push_back(tensor_of(part, state.layout->dtype(),
                              part.frozen ? state.frozen : state.weights,
                              part.name));
  return out;
}

models::tensor_metadata other_names_of(const snapshot& state) {
  models::tensor_metadata out;
  if (state.layout)
    for (const auto& part : state.layout->state_dict())
      if (is_shared(part))
        out.emplace(part.name, part.same_as);
  return out;
}

std::vector<models::named_tensor> slots_of(const snapshot& state) {
  std::vector<models::named_tensor> out;
  for (const auto& slot : state.slots)
    for (const auto& part : state.layout->slots())
      out.push_back(tensor_of(part, state.layout->dtype(), slot.flat,
                              models::slot_key(slot.name, part.name)));
  return out;
}

// Parameters that lie side by side in the file are one part.
state_request places_in(const snapshot& state) {
  const auto& [model, optimizer] = *state.drafts;
  const auto& layout = *state.layout;
  auto width = models::size_of(layout.dtype());
  state_request out;
  out.weights.file = std::filesystem::absolute(model.path()).string();
  auto& parts = out.weights.parts;
  for (const auto& one : layout.slots()) {
    file_part next{one.offset, one.count, model.position(one.name)};
    if (!parts.empty() &&
        next.at == parts.back().at + parts.back().count * width)
      parts.back().count += next.count;
    else
      parts.push_back(next);
  }
  out.slots.file = std::filesystem::absolute(optimizer.path()).string();
  for (const auto& slot : state.slots) {
    auto key = models::slot_key(slot.name, layout.slots().front().name);
    out.slots.parts.push_back(
      {0, layout.parameter_count(), optimizer.position(key)});
  }
  return out;
}

// The same digest as that of models::weights_sha256.
std::optional<std::string> weights_sha256(const snapshot& state) {
  if (!state.layout)
    return std::nullopt;
  models::sha256 sum;
  auto trained = weights_of(state);
  auto frozen = reader_of(state.frozen);
  for (const auto& part : state.layout->state_dict())
    if (part.kind == models::tensor_kind::parameter && part.same_as.empty())
      (part.frozen ? frozen
                   : trained)(part, [&](std::span<const std::byte> bytes) {
        update_rounded(sum, bytes, state.layout->dtype());
      });
  return models::to_hex(sum.finish());
}

std::optional<std::string> state_sha256(const snapshot& state) {
  if (!state.layout)
    return std::nullopt;
  models::sha256 sum;
  using kind = models::tensor_kind;
  update(sum, *state.layout, kind::parameter, weights_of(state));
  update(sum, *state.layout, kind::statistic, weights_of(state));
  for (size_t slot = 0; slot < state.slots.size(); ++slot)
    update(sum, *state.layout, kind::parameter, reader_of(state, slot));
  if (state.frozen)
    sum.update(state.frozen.host_bytes());
  return models::to_hex(sum.finish());
}

std::optional<std::string> not_finite_in(const snapshot& state) {
  if (!state.layout)
    return std::nullopt;
  const auto& layout = *state.layout;
  if (const auto* part =
        culprit(layout.slots(), layout.dtype(), weights_of(state)))
    return part->name;
  for (size_t slot = 0; slot < state.slots.size(); ++slot)
    if (const auto* part =
          culprit(layout.slots(), layout.dtype(), reader_of(state, slot)))
      return models::slot_key(state.slots[slot].name, part->name);
  return std::nullopt;
}

} // namespace troupe
