#pragma once
// Where each parameter and each running statistic of a network lies in one flat
// buffer: the parameters first, then the statistics. Weights and gradients of a
// network are such buffers, and those of a module are views into them; a slot
// of an optimiser has the parameters only. What is not trained has a buffer of
// its own, in which constants of other types come last, as bytes. An immutable
// value; any thread.

#include "config/patterns/key_patterns.hpp"
#include "config/patterns/param_groups.hpp"
#include "config/text/settings.hpp"
#include "models/scalar.hpp"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace torch::nn {
class Module;
} // namespace torch::nn

namespace troupe::models {

/// The kinds of tensors in a state dict. The first two lie in flat buffers, or
/// in the frozen one; constants always lie in the frozen one.
enum class tensor_kind : uint8_t {
  parameter,
  statistic, ///< A buffer of floating-point numbers.
  counter,   ///< A single int64: the number of batches so far.
  constant   ///< Frozen, and of a type of its own; not computed with here.
};

/// One tensor; offset and count are in elements, of a constant in bytes.
struct parameter_slot {
  std::string name; ///< The key in the state_dict.
  std::vector<int64_t> shape;
  uint64_t offset = 0;
  uint64_t count = 0;
  tensor_kind kind = tensor_kind::parameter;
  /// The first name of a tensor with several names (tied weights), if `name` is
  /// another one; else empty.
  std::string same_as = {};
  /// Whether its layer normalises; nothing if the layer's class does not tell.
  std::optional<bool> normalises = {};
  bool frozen = false; ///< Not trained: its place is in the frozen buffer.
  config::group_numbers group = {}; ///< What it has of its own in training.
  std::string dtype = {};           ///< Of a constant, as in safetensors.

  bool operator==(const parameter_slot&) const = default;
};

/// The number of a parameter's owner, by the parameter's name.
using parameter_owner = std::function<uint32_t(const std::string& name)>;

/// All numbers of a network.
struct whole_weights {
  at::Tensor trained; ///< A flat buffer: parameters, then statistics.
  at::Tensor frozen;  ///< The flat buffer of the others; undefined if none.
};

/// Parameters and statistics of a network, each in the order of its state_dict,
/// without gaps; parameters with different owners (`--placement`) by owner
/// first. A tensor with several names is there once, under the first.
/// The two ends of a connection compare theirs with ==.
class flat_layout {
public:
  flat_layout() = default;

  /// @param owner Orders the parameters that are trained: those of a lower
  /// owner lie before those of a higher one; empty: all have one.
  /// @param freeze Names what is not trained: the parameters that match, and
  /// all statistics of a layer if one of them matches. Parameters that need no
  /// gradient are not trained either.
  /// @throws run_error if parameters and statistics differ in dtype or are
  /// neither float32 nor float64, or another buffer is no int64 scalar, or no
  /// parameter needs a gradient; usage_error if a pattern matches nothing, or
  /// leaves nothing to train.
  static flat_layout from(const torch::nn::Module& module,
                          const config::key_patterns& freeze = {},
                          const parameter_owner& owner = nullptr);

  /// Makes the layout of a checkpoint or a peer. Offsets and counts follow from
  /// the shapes.
  /// @throws run_error on negative or overflowing shapes, or a repeated name.
  static flat_layout from(
    const std::vector<std::pair<std::string, std::vector<int64_t>>>& parameters,
    config::scalar_type dtype);

  /// Gives the parameters that are trained numbers of their own.
  void set_groups(
    const std::function<config::group_numbers(const parameter_slot&)>& of);

  /// Adds constants (name, shape, dtype and same_as) at the end of the state
  /// dict.
  /// @throws run_error on an impossible shape or type, or a repeated name.
  void add_constants(std::vector<parameter_slot> constants);

  /// The parameters that are trained.
  const std::vector<parameter_slot>& slots() const noexcept { return slots_; }

  const std::vector<parameter_slot>& statistics() const noexcept {
    return statistics_;
  }

  /// The tensors that are not trained, without the constants.
  const std::vector<parameter_slot>& frozen() const noexcept {
    return frozen_slots_;
  }

  const std::vector<parameter_slot>& constants() const noexcept {
    return constants_;
  }

  /// All names of the state dict, in its order.
  const std::vector<parameter_slot>& state_dict() const noexcept {
    return state_dict_;
  }

  /// Elements of a flat buffer.
  uint64_t count() const noexcept { return parameters_ + numbers_; }

  /// Elements of the parameters.
  uint64_t parameter_count() const noexcept { return parameters_; }

  /// Elements of the frozen buffer.
  uint64_t frozen_count() const noexcept;

  /// Elements of the parameters of each owner; empty: all have one.
  const std::map<uint32_t, uint64_t>& owned() const noexcept { return owned_; }

  config::scalar_type dtype() const noexcept { return dtype_; }

  /// Bytes of one flat buffer.
  uint64_t bytes() const noexcept { return count() * size_of(dtype_); }

  /// The part of a flat buffer that holds this tensor, in its shape; shares
  /// memory.
  at::Tensor view(const at::Tensor& flat, const parameter_slot& slot) const;

  at::Tensor view(const whole_weights& all, const parameter_slot& slot) const {
    return view(slot.frozen ? all.frozen : all.trained, slot);
  }

  /// The bytes of a constant in the frozen buffer.
  static std::span<std::byte> constant_in(const at::Tensor& frozen,
                                          const parameter_slot& slot);

  at::Tensor parameters_of(const at::Tensor& flat) const;

  /// All statistics of a flat buffer; shares memory.
  at::Tensor statistics_of(const at::Tensor& flat) const;

  /// Is `flat` a contiguous buffer of this layout's dtype and count, and there?
  bool fits(const at::Tensor& flat, c10::Device where = c10::kCPU) const;

  /// The same for a buffer that holds the parameters only.
  bool fits_parameters(const at::Tensor& flat) const;

  /// The same for the frozen buffer.
  bool fits_frozen(const at::Tensor& flat) const;

  /// The same for any part of a buffer, of so many elements.
  bool fits(const at::Tensor& flat, uint64_t count,
            c10::Device where = c10::kCPU) const;

  bool operator==(const flat_layout&) const = default;

private:
  /// Assigns each tensor its place.
  void place_all(std::vector<parameter_slot> all,
                 const parameter_owner& owner = nullptr);

  std::vector<parameter_slot> slots_;
  std::vector<parameter_slot> statistics_;
  std::vector<parameter_slot> frozen_slots_;
  std::vector<parameter_slot> constants_;
  std::vector<parameter_slot> state_dict_;
  uint64_t parameters_ = 0;
  uint64_t numbers_ = 0;      ///< In statistics.
  uint64_t frozen_ = 0;       ///< Without the constants.
  uint64_t constant_end_ = 0; ///< Byte of the frozen buffer; 0: there are none.
  std::map<uint32_t, uint64_t> owned_;
  config::scalar_type dtype_ = config::scalar_type::float32;
};

/// The tensors of these slots, in their order.
/// @throws run_error if the module has none of that name, size and dtype.
std::vector<at::Tensor> tensors_of(const torch::nn::Module& module,
                                   const std::vector<parameter_slot>& slots,
                                   config::scalar_type dtype);

/// Makes the parameters of `module` views into `flat`, without a copy. The
/// memory lives as long as a parameter refers to it.
/// @throws run_error if module, layout and buffer do not belong together.
void bind_parameters(torch::nn::Module& module, const flat_layout& layout,
                     const at::Tensor& flat);

/// The same for the statistics.
void bind_statistics(torch::nn::Module& module, const flat_layout& layout,
                     const at::Tensor& flat);

/// Makes the gradients of `module` views into `flat`: backward adds to them,
/// so that the caller zeroes `flat` first.
void bind_gradients(torch::nn::Module& module, const flat_layout& layout,
                    const at::Tensor& flat);

/// Copies parameters and statistics of `module` into a new flat buffer.
at::Tensor gather(const torch::nn::Module& module, const flat_layout& layout);

/// The same for what is not trained; the bytes of constants are arbitrary.
at::Tensor gather_frozen(const torch::nn::Module& module,
                         const flat_layout& layout);

/// Digest of weights as 64 hex digits: SHA-256 over the float32 values of all
/// parameters in the order of the state dict, little-endian; float64 weights
/// are rounded first.
std::string weights_sha256(const whole_weights& all, const flat_layout& layout);

} // namespace troupe::models
