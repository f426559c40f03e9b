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
    places_.push_back({parameter.unsafeGetTensorImpl(), std::move(place)});
  }

  void clear() { places_.clear(); }

  /// The i-th place that was set.
  const at::Tensor& operator[](size_t i) const { return places_[i].where; }

  bool empty() const { return places_.empty(); }

  /// The place of this parameter's gradient; only the first caller gets it. If
  /// a parameter is used twice, one of its gradients lies there and the other
  /// is added to it. An undefined tensor, if there is no place or it was taken,
  /// lets the gradient lie anywhere.
  at::Tensor take_place(const at::Tensor& parameter) const {
    auto found = std::ranges::find(places_, parameter.unsafeGetTensorImpl(),
                                   &entry::parameter);
    if (found == places_.end() || std::exchange(found->taken, true))
      return {};
    return found->where;
  }

private:
  struct entry {
    const c10::TensorImpl* parameter;
    at::Tensor where;
    mutable bool taken = false;
  };

  std::vector<entry> places_;
};

} // namespace troupe::models
