#include "models/engine/arriving_weights.hpp"

#include <ATen/record_function.h>

#include <algorithm>
#include <cstddef>
#include <memory>

namespace troupe::models {

namespace {

/// The weights that this thread computes on.
struct awaited {
  const weights_wait* wait = nullptr;
  const std::byte* data = nullptr;
  size_t bytes = 0;
};

thread_local awaited now;

void wait_for(const at::Tensor& x) {
  if (!x.defined() || !x.has_storage() || !x.device().is_cpu())
    return;
  const auto* data = static_cast<const std::byte*>(x.const_data_ptr());
  if (data < now.data || data >= now.data + now.bytes)
    return;
  auto first = static_cast<uint64_t>(data - now.data);
  // Views of the weights have no gaps.
  (*now.wait)(first, std::min<uint64_t>(now.bytes, first + x.nbytes()));
}

void wait_for(const c10::IValue& x) {
  if (x.isTensor())
    wait_for(x.toTensor());
  else if (x.isTensorList())
    for (const at::Tensor& one : x.toTensorVector())
      wait_for(one);
}

std::unique_ptr<at::ObserverContext>
before_operator(const at::RecordFunction& function) {
  for (const auto& x : function.inputs())
    wait_for(x);
  return nullptr;
}

} // namespace

waits_for_weights::waits_for_weights(const weights_wait* wait,
                                     const at::Tensor& weights) {
  if (!wait)
    return;
  now = {wait, static_cast<const std::byte*>(weights.const_data_ptr()),
         weights.nbytes()};
  observer_ = at::addThreadLocalCallback(
    at::RecordFunctionCallback{before_operator}.needsInputs(true).scopes(
      {at::RecordScope::FUNCTION}));
}

waits_for_weights::~waits_for_weights() {
  if (observer_)
    at::removeCallback(*observer_);
}

} // namespace troupe::models
