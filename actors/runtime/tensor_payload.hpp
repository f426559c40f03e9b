#pragma once
// Payloads and tensors share memory: neither direction copies.

#include "messages/payload.hpp"
#include "models/scalar.hpp"

#include <ATen/core/Tensor.h>

namespace troupe {

/// The payload of a flat, contiguous CPU tensor of float32 or float64. Nobody
/// may write to the tensor from here on.
payload to_payload(at::Tensor flat);

/// A flat tensor on the payload's memory, to be read only; it keeps the memory
/// alive.
at::Tensor to_tensor(const payload& x);

/// A flat tensor to fill the buffer with; not to be used after sealing.
at::Tensor to_tensor(payload_buffer& x);

/// The element type of the settings, as payloads name it.
constexpr element_type to_element_type(config::scalar_type x) {
  return x == config::scalar_type::float64 ? element_type::float64
                                           : element_type::float32;
}

} // namespace troupe
