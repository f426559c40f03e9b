#include "actors/shards/fragment_models.hpp"

#include "actors/runtime/tensor_payload.hpp"
#include "models/guarded.hpp"
#include "models/optim/groups.hpp"

#include <ATen/ops/cat.h>

#include <algorithm>
#include <array>
#include <utility>

namespace troupe {

fragment_models::fragment_models(const config::training_settings& settings,
                                 config::scalar_type dtype, server_range range,
                                 const models::lanes& across)
  : cuts_(std::move(range.cuts)) {
  const auto& elements = range.elements;
  auto all = cuts_ ? *cuts_ : models::fragments{std::array{elements.count}};
  for (uint32_t k = 0; k < all.count(); ++k) {
    const auto& its = all.parameters(k);
    auto first = elements.first + its.first;
    if (its.count > 0)
      all_.emplace_back(
        settings, dtype, models::element_range{first, its.count},
        models::within(range.groups, its), range_passes{first, across});
    else
      all_.emplace_back();
    if (first_ == nullptr)
      first_ = all_.back().optimizer();
  }
  steps_.resize(all_.size());
}

/// The steps of a fragment, where those of all are known.
uint64_t fragment_models::steps_in(std::span<const uint64_t> of_fragments,
                                   size_t which, uint64_t otherwise) const {
  return of_fragments.size() == all_.size() ? of_fragments[which] : otherwise;
}

void fragment_models::load(const models::flat_layout& whole,
                           const models::loaded_checkpoint& from) {
  const auto& record = from.manifest.optimizer();
  std::span of_fragments{record.fragment_steps().data(),
                         static_cast<size_t>(record.fragment_steps().size())};
  for (size_t k = 0; k < all_.size(); ++k) {
    steps_[k] = steps_in(of_fragments, k, record.steps());
    if (all_[k].optimizer() != nullptr)
      all_[k].load(whole, from, steps_[k]);
  }
}

void fragment_models::load(const std::vector<models::named_slot>& slots,
                           uint64_t steps,
                           std::span<const uint64_t> of_fragments) {
  for (uint32_t k = 0; k < all_.size(); ++k) {
    steps_[k] = steps_in(of_fragments, k, steps);
    if (all_[k].optimizer() == nullptr)
      continue;
    auto its = slots;
    for (auto& slot : its)
      slot.flat = own(slot.flat, k);
    all_[k].load(its, steps_[k]);
  }
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

/// @param use Takes each fragment of which there are numbers here and
/// gradients, and these.
template <class Use>
void fragment_models::for_each(const mean_of& mean, Use use) const {
  for (uint32_t k = 0; k < all_.size(); ++k) {
    if (all_[k].optimizer() == nullptr)
      continue;
    auto its = part_of(mean, k);
    if (!its.gradients.empty())
      use(k, its);
  }
}

payload fragment_models::released(const payload& weights, uint32_t pushes,
                                  bool goes_on) const {
  if (!cuts_ || !goes_on)
    return weights;
  auto range = cuts_->all(cuts_->before(pushes));
  return weights.part(range.first, range.count);
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
  for (uint32_t k = 0; k < all_.size(); ++k) {
    auto its = part_of(mean, k);
    if (!its.gradients.empty() || !cuts_) {
      all_[k].apply(own(next, k), own(current, k), its.gradients, its.shares,
                    with);
      ++steps_[k];
    } else if (next.const_data_ptr() != current.const_data_ptr()) {
      copy_numbers(own(next, k), own(current, k));
    }
  }
}

uint64_t fragment_models::steps() const {
  return has_weights() ? std::ranges::max(steps_) : 0;
}

std::vector<uint64_t> fragment_models::steps_of_fragments() const {
  return cuts_ ? steps_ : std::vector<uint64_t>{};
}

std::vector<std::string> fragment_models::slot_names() const {
  std::vector<std::string> out;
  if (has_weights())
    for (auto& one : first_->slots())
      out.push_back(std::move(one.name));
  return out;
}

/// One slot as a whole.
at::Tensor fragment_models::slot(size_t which) const {
  if (!cuts_)
    return first_->slots()[which].flat;
  return models::guarded("copying the optimiser's state", [&] {
    std::vector<at::Tensor> parts;
    for (const auto& one : all_)
      if (one.optimizer() != nullptr)
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
