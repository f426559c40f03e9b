#include "actors/state/snapshot.hpp"

#include "actors/runtime/tensor_payload.hpp"
#include "models/optim/aggregate.hpp"
#include "models/storage/checkpoint.hpp"
#include "models/storage/sha256.hpp"

#include <ATen/ops/from_blob.h>

#include <cstddef>
#include <functional>
#include <span>
#include <utility>

namespace troupe {

namespace {

/// The first of these tensors that is not finite, given that `flat` is not.
const models::parameter_slot*
culprit(const std::vector<models::parameter_slot>& all,
        const at::Tensor& flat) {
  for (const auto& part : all)
    if (!models::all_finite(flat.narrow(0, static_cast<int64_t>(part.offset),
                                        static_cast<int64_t>(part.count))))
      return &part;
  return nullptr;
}

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
    to(flat.bytes().subspan(part.offset * width, part.count * width));
  };
}

reader reader_of(const snapshot& what, size_t slot) {
  if (!what.draft)
    return reader_of(what.slots[slot].flat);
  return [&what, slot](const models::parameter_slot& part, const auto& to) {
    auto width = models::size_of(what.layout->dtype());
    auto first = slot * what.layout->parameter_count() + part.offset;
    what.draft->read(first * width, part.count * width, to);
  };
}

/// In the order of the state dict, wherever the tensors lie.
void update(models::sha256& sum, const models::flat_layout& layout,
            models::tensor_kind kind, const reader& read) {
  for (const auto& x : layout.state_dict())
    if (x.kind == kind && !x.frozen && x.same_as.empty())
      read(x, [&](std::span<const std::byte> bytes) { sum.update(bytes); });
}

/// The first part of a slot that is not finite; null if all are.
const models::parameter_slot* culprit(const snapshot& what, size_t slot) {
  auto read = reader_of(what, slot);
  for (const auto& part : what.layout->slots()) {
    auto finite = true;
    read(part, [&](std::span<const std::byte> bytes) {
      finite = finite && all_finite(bytes, what.layout->dtype());
    });
    if (!finite)
      return &part;
  }
  return nullptr;
}

} // namespace

models::named_tensor tensor_of(const models::parameter_slot& part,
                               const payload& flat, std::string key) {
  auto width = size_of(flat.shape().type);
  auto dtype = flat.shape().type == element_type::float64 ? "F64" : "F32";
  return {std::move(key), dtype, part.shape,
          flat.bytes().subspan(part.offset * width, part.count * width)};
}

std::vector<models::named_tensor> slots_of(const snapshot& what) {
  std::vector<models::named_tensor> out;
  auto dtype =
    what.layout && what.layout->dtype() == config::scalar_type::float64 ? "F64"
                                                                        : "F32";
  for (const auto& slot : what.slots)
    for (const auto& part : what.layout->slots()) {
      auto key = models::slot_key(slot.name, part.name);
      if (slot.flat)
        out.push_back(tensor_of(part, slot.flat, std::move(key)));
      else
        out.push_back({std::move(key), dtype, part.shape, {}});
    }
  return out;
}

std::optional<std::string> state_sha256(const snapshot& what) {
  if (!what.layout)
    return std::nullopt;
  models::sha256 sum;
  using kind = models::tensor_kind;
  update(sum, *what.layout, kind::parameter, reader_of(what.weights));
  update(sum, *what.layout, kind::statistic, reader_of(what.weights));
  for (size_t slot = 0; slot < what.slots.size(); ++slot)
    update(sum, *what.layout, kind::parameter, reader_of(what, slot));
  if (what.frozen)
    sum.update(what.frozen.bytes());
  return models::to_hex(sum.finish());
}

std::optional<std::string> not_finite_in(const snapshot& what) {
  if (!what.layout)
    return std::nullopt;
  const auto& layout = *what.layout;
  if (auto flat = to_tensor(what.weights); !models::all_finite(flat))
    for (const auto* all : {&layout.slots(), &layout.statistics()})
      if (const auto* part = culprit(*all, flat))
        return part->name;
  for (size_t slot = 0; slot < what.slots.size(); ++slot)
    if (const auto* part = culprit(what, slot))
      return models::slot_key(what.slots[slot].name, part->name);
  return std::nullopt;
}

} // namespace troupe
