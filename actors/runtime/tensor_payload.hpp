#pragma once
// Converts between payloads and tensors. Both share memory: neither direction
// copies. Free functions; thread-safe.

#include "messages/payload.hpp"
#include "models/scalar.hpp"

#include <ATen/core/Tensor.h>

namespace troupe {

/// The payload of a flat, contiguous CPU tensor of float32 or float64. Nobody
/// may write to the tensor afterwards.
payload to_payload(at::Tensor flat);

/// A flat tensor on the payload's memory, for reading only; it keeps the memory
/// alive. Undefined for an empty payload.
at::Tensor to_tensor(const payload& x);

/// A flat tensor for filling the buffer; not to be used after sealing.
at::Tensor to_tensor(payload_buffer& x);

/// The element type of payloads that corresponds to one of the settings.
constexpr element_type to_element_type(config::scalar_type x) {
  return x == config::scalar_type::float64 ? element_type::float64
                                           : element_type::float32;
}

} // namespace troupe
