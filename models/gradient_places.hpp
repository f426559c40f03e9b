#pragma once
// Where in a flat gradient buffer backward is to write each parameter's
// gradient. The compute engine fills and owns it; the layers that can write
// there directly save a copy. Not thread-safe: one per computing thread.

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace troupe::models {

/// Views into a flat buffer, one for each parameter.
class gradient_places {
public:
  void set(const at::Tensor& parameter, at::Tensor place) {
    places_.emplace_back(parameter.unsafeGetTensorImpl(), std::move(place));
  }

  void clear() { places_.clear(); }

  /// The i-th place that was set.
  const at::Tensor& operator[](size_t i) const { return places_[i].second; }

  bool empty() const { return places_.empty(); }

  /// The place of this parameter's gradient; an undefined tensor if it has
  /// none, so that the gradient may lie anywhere.
  at::Tensor of(const at::Tensor& parameter) const {
    auto found = std::ranges::find(places_, parameter.unsafeGetTensorImpl(),
                                   &entry::first);
    return found == places_.end() ? at::Tensor{} : found->second;
  }

private:
  using entry = std::pair<const c10::TensorImpl*, at::Tensor>;

  std::vector<entry> places_;
};

} // namespace troupe::models
