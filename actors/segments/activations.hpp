#pragma once
// Converts between tensors and the activations in messages. Both share memory
// where the numbers lie in one run. Free functions; thread-safe.

#include "messages/segment_values.hpp"

#include <ATen/core/Tensor.h>

namespace troupe {

/// The numbers of a tensor, without its graph; an undefined tensor has none.
/// Nobody may write to them afterwards.
activations to_activations(const at::Tensor& x);

/// A tensor for reading only; undefined if there are no numbers.
/// @throws run_error if the sizes do not fit the numbers.
at::Tensor to_tensor(const activations& x);

} // namespace troupe
