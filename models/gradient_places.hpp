#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace troupe::models {

/// Where the gradient of each parameter is wanted: views into a flat buffer.
/// A layer that can write there saves a copy. Not thread-safe.
class gradient_places {
public:
  void set(const at::Tensor& parameter, at::Tensor place) {
    places_.emplace_back(parameter.unsafeGetTensorImpl(), std::move(place));
  }

  void clear() { places_.clear(); }

  /// The i-th that was set.
  const at::Tensor& operator[](size_t i) const { return places_[i].second; }

  bool empty() const { return places_.empty(); }

  /// Undefined if it is all the same.
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
