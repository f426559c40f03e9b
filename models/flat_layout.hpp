#pragma once
// Where each parameter of a network lies in one flat buffer. All weights, all
// gradients and each optimiser slot of a network are such buffers; the
// parameters of a module are views into them.

#include "config/settings.hpp"
#include "models/scalar.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace torch::nn {
class Module;
} // namespace torch::nn

namespace troupe::models {

/// One parameter; offset and count are in elements.
struct parameter_slot {
  std::string name; ///< The key in the state_dict.
  std::vector<int64_t> shape;
  uint64_t offset = 0;
  uint64_t count = 0;

  bool operator==(const parameter_slot&) const = default;
};

/// The parameters of a network in the order of its state_dict, without gaps.
/// A value; two ends of a connection compare theirs with ==.
class flat_layout {
public:
  flat_layout() = default;

  /// @throws run_error if the parameters differ in dtype or are neither
  /// float32 nor float64.
  static flat_layout from(const torch::nn::Module& module);

  /// For layouts that come from elsewhere (a checkpoint, a peer). Offsets and
  /// counts follow from the shapes.
  /// @throws run_error on negative or overflowing shapes, or a repeated name.
  static flat_layout from(
    const std::vector<std::pair<std::string, std::vector<int64_t>>>& parameters,
    config::scalar_type dtype);

  const std::vector<parameter_slot>& slots() const noexcept { return slots_; }

  /// Elements in all.
  uint64_t count() const noexcept { return count_; }

  config::scalar_type dtype() const noexcept { return dtype_; }

  /// Bytes of one flat buffer.
  uint64_t bytes() const noexcept { return count_ * size_of(dtype_); }

  /// The parameter's part of a flat buffer, in its shape; shares memory.
  at::Tensor view(const at::Tensor& flat, const parameter_slot& slot) const;

  /// Is `flat` a contiguous CPU buffer of this layout's dtype and count?
  bool fits(const at::Tensor& flat) const;

  bool operator==(const flat_layout&) const = default;

private:
  std::vector<parameter_slot> slots_;
  uint64_t count_ = 0;
  config::scalar_type dtype_ = config::scalar_type::float32;
};

/// Makes the parameters of `module` views into `flat`: no copy. The memory
/// lives as long as a parameter looks at it.
/// @throws run_error if module, layout and buffer do not belong together.
void bind_parameters(torch::nn::Module& module, const flat_layout& layout,
                     const at::Tensor& flat);

/// Makes the gradients of `module` views into `flat`: backward adds to them,
/// so that the caller zeroes `flat` first.
void bind_gradients(torch::nn::Module& module, const flat_layout& layout,
                    const at::Tensor& flat);

/// Copies the parameters of `module` into a new flat buffer.
at::Tensor gather(const torch::nn::Module& module, const flat_layout& layout);

/// Digest of weights as 64 hex digits: SHA-256 over the float32 values in the
/// order of the layout, little-endian; float64 weights are rounded first.
std::string weights_sha256(const at::Tensor& flat, const flat_layout& layout);

} // namespace troupe::models
