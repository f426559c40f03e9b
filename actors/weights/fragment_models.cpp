#include "actors/weights/fragment_models.hpp"

#include "actors/runtime/tensor_payload.hpp"
#include "models/guarded.hpp"
#include "models/optim/groups.hpp"

#include <ATen/ops/cat.h>

#include <algorithm>
#include <utility>

namespace troupe {

fragment_models::fragment_models(const config::training_settings& settings,
                                 const models::flat_layout& layout,
                                 const models::element_range& range,
                                 range_passes passes) {
  all_.emplace_back(settings, layout.dtype(), range,
                    models::within(models::groups_of(layout, settings), range),
                    std::move(passes));
}

fragment_models::fragment_models(const config::training_settings& settings,
                                 const models::flat_layout& layout,
                                 const models::lanes& across) {
  cuts_.emplace(layout, settings.fragments);
  auto groups = models::groups_of(layout, settings);
  for (uint32_t k = 0; k < cuts_->count(); ++k) {
    const auto& range = cuts_->parameters(k);
    all_.emplace_back(settings, layout.dtype(), range,
                      models::within(groups, range),
                      range_passes{range.first, across});
  }
}

void fragment_models::load(const models::flat_layout& whole,
                           const models::loaded_checkpoint& from) {
  const auto& steps = from.manifest.optimizer().fragment_steps();
  auto fits = static_cast<size_t>(steps.size()) == all_.size();
  for (size_t k = 0; k < all_.size(); ++k)
    all_[k].load(whole, from,
                 fits ? steps.at(static_cast<int>(k))
                      : from.manifest.optimizer().steps());
}

at::Tensor fragment_models::own(const at::Tensor& whole,
                                uint32_t fragment) const {
  if (!cuts_)
    return whole;
  const auto& range = cuts_->parameters(fragment);
  return whole.narrow(0, static_cast<int64_t>(range.first),
                      static_cast<int64_t>(range.count));
}

auto fragment_models::part_of(const mean_of& mean, uint32_t fragment) const
  -> its_mean {
  its_mean out;
  for (size_t i = 0; i < mean.gradients.size(); ++i)
    if (mean.fragments.empty() || mean.fragments[i] == fragment) {
      out.gradients.push_back(mean.gradients[i]);
      out.shares.push_back(mean.shares[i]);
    }
  return out;
}

/// @param use Takes each fragment that has gradients, and these.
template <class Use>
void fragment_models::for_each(const mean_of& mean, Use use) const {
  for (uint32_t k = 0; k < all_.size(); ++k) {
    auto its = part_of(mean, k);
    if (!its.gradients.empty())
      use(k, its);
  }
}

gradient_facts fragment_models::look_at(const payload& gradient,
                                        uint32_t fragment) const {
  return has_weights() ? all_.at(fragment).look_at(gradient) : gradient_facts{};
}

models::exact_sum fragment_models::squares(const mean_of& mean) const {
  models::exact_sum out;
  for_each(mean, [&](uint32_t k, const its_mean& its) {
    out.add(all_[k].squares(its.gradients, its.shares).parts());
  });
  return out;
}

std::vector<models::parameter_squares>
fragment_models::measure(const at::Tensor& current, const mean_of& mean,
                         double scale) {
  std::vector<models::parameter_squares> out;
  for_each(mean, [&](uint32_t k, const its_mean& its) {
    auto found =
      all_[k].measure(own(current, k), its.gradients, its.shares, scale);
    out.insert(out.end(), found.begin(), found.end());
  });
  return out;
}

void fragment_models::apply(const at::Tensor& next, const at::Tensor& current,
                            const mean_of& mean, const step_terms& with) {
  if (!cuts_) {
    if (has_weights())
      all_.front().apply(next, current, mean.gradients, mean.shares, with);
    return;
  }
  for (uint32_t k = 0; k < all_.size(); ++k)
    if (auto its = part_of(mean, k); !its.gradients.empty())
      all_[k].apply(own(next, k), own(current, k), its.gradients, its.shares,
                    with);
    else if (next.const_data_ptr() != current.const_data_ptr())
      copy_numbers(own(next, k), own(current, k));
}

uint64_t fragment_models::steps() const {
  uint64_t out = 0;
  for (const auto& one : all_)
    out = std::max(out, one.optimizer()->steps());
  return out;
}

std::vector<uint64_t> fragment_models::steps_of_fragments() const {
  std::vector<uint64_t> out;
  if (cuts_)
    for (const auto& one : all_)
      out.push_back(one.optimizer()->steps());
  return out;
}

std::vector<std::string> fragment_models::slot_names() const {
  std::vector<std::string> out;
  if (has_weights())
    for (auto& one : first().slots())
      out.push_back(std::move(one.name));
  return out;
}

/// One slot as a whole.
at::Tensor fragment_models::slot(size_t which) const {
  if (!cuts_)
    return first().slots()[which].flat;
  return models::guarded("copying the optimiser's state", [&] {
    std::vector<at::Tensor> parts;
    for (const auto& one : all_)
      parts.push_back(one.optimizer()->slots()[which].flat);
    return at::cat(parts);
  });
}

std::vector<models::named_slot> fragment_models::slots() const {
  std::vector<models::named_slot> out;
  for (auto& name : slot_names())
    out.push_back({std::move(name), slot(out.size())});
  return out;
}

std::optional<at::Tensor> fragment_models::average() const {
  auto names = slot_names();
  auto found = std::ranges::find(names, models::average_slot_name);
  if (found == names.end())
    return std::nullopt;
  return slot(static_cast<size_t>(found - names.begin()));
}

std::vector<payload> fragment_models::copy_slots() const {
  if (!has_weights())
    return {};
  if (!cuts_)
    return all_.front().copy_slots();
  std::vector<payload> out;
  for (auto& slot : slots())
    out.push_back(to_payload(std::move(slot.flat)));
  return out;
}

} // namespace troupe
