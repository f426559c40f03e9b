#include "actors/state/snapshot.hpp"

#include "actors/runtime/tensor_payload.hpp"
#include "models/optim/aggregate.hpp"
#include "models/storage/checkpoint.hpp"
#include "models/storage/sha256.hpp"

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

/// In the order of the state dict, wherever the tensors lie.
void update(models::sha256& sum, const models::flat_layout& layout,
            models::tensor_kind kind, const payload& flat) {
  auto width = models::size_of(layout.dtype());
  for (const auto& x : layout.state_dict())
    if (x.kind == kind && !x.frozen && x.same_as.empty())
      sum.update(flat.bytes().subspan(x.offset * width, x.count * width));
}

} // namespace

std::optional<std::string> state_sha256(const snapshot& what) {
  if (!what.layout)
    return std::nullopt;
  models::sha256 sum;
  using kind = models::tensor_kind;
  update(sum, *what.layout, kind::parameter, what.weights);
  update(sum, *what.layout, kind::statistic, what.weights);
  for (const auto& slot : what.slots)
    update(sum, *what.layout, kind::parameter, slot.flat);
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
  for (const auto& slot : what.slots)
    if (auto flat = to_tensor(slot.flat); !models::all_finite(flat))
      if (const auto* part = culprit(layout.slots(), flat))
        return models::slot_key(slot.name, part->name);
  return std::nullopt;
}

} // namespace troupe
