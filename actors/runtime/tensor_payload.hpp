#pragma once
// Converts between payloads and tensors. Both share memory: nothing is copied
// unless numbers are wanted elsewhere than they lie. Free functions;
// thread-safe.

#include "messages/payload.hpp"
#include "messages/payload_memory.hpp"
#include "models/scalar.hpp"

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <memory>

namespace troupe {

/// The payload of a flat, contiguous tensor of float32 or float64. Nobody may
/// write to the tensor afterwards. On a GPU its numbers are final after what
/// the current stream has been given up to now; throws `run_error` if the GPU
/// has failed.
/// @param copies For a tensor on a GPU: where the host's copy comes from,
/// blocks of its size; null: pinned memory.
payload to_payload(at::Tensor flat,
                   std::shared_ptr<payload_pool> copies = nullptr);

/// A flat tensor in the host's memory, for reading only; it keeps the memory
/// alive. Undefined for an empty payload.
at::Tensor to_tensor(const payload& x);

/// The same on a device, for what is enqueued on its current stream. Numbers
/// that lie elsewhere are copied before this returns.
at::Tensor to_tensor(const payload& x, c10::Device where);

/// Copies a flat tensor, also to or from a GPU. In the host's memory it does so
/// on this thread: LibTorch's copy would use those of the caller.
void copy_numbers(const at::Tensor& to, const at::Tensor& from);

/// Copies a payload's numbers into a flat tensor, on a GPU or not. They are
/// there when this returns, for all streams and processes. Throws run_error if
/// a GPU has failed.
void write_numbers(const at::Tensor& to, const payload& from);

/// A flat tensor for filling the buffer; not to be used after sealing.
at::Tensor to_tensor(payload_buffer& x);

/// The element type of payloads that corresponds to one of the settings.
constexpr element_type to_element_type(config::scalar_type x) {
  return x == config::scalar_type::float64 ? element_type::float64
                                           : element_type::float32;
}

} // namespace troupe
