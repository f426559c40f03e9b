#pragma once
// What the rest of Troupe knows of a neural network: its module, whose
// parameters are bound to flat memory, and its forward pass.

#include "config/settings.hpp"
#include "models/gradient_places.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace torch::nn {
class Module;
} // namespace torch::nn

namespace troupe::models {

/// One replica of a network. Not thread-safe: each computing thread has its
/// own replica.
class network {
public:
  virtual ~network();

  /// Owns the parameters; their order is that of named_parameters(), which is
  /// that of the state_dict.
  virtual torch::nn::Module& module() = 0;

  /// @param inputs [n, C, H, W]
  /// @param places Where backward is to leave gradients; where there are none,
  /// or a layer cannot, they lie where LibTorch puts them.
  /// @returns scores before softmax, [n, classes].
  virtual at::Tensor forward(const at::Tensor& inputs,
                             const gradient_places& places = {}) = 0;

  /// Shape of one sample that forward takes: C, H, W.
  virtual std::vector<int64_t> input_shape() const = 0;
};

/// Makes a network by name. Its weights are arbitrary until `initialise` or
/// until they are bound.
/// @throws usage_error if the name is unknown; the line lists those that are.
std::shared_ptr<network> make_network(const std::string& name, int64_t classes,
                                      config::scalar_type dtype);

/// The names that make_network knows.
std::vector<std::string> network_names();

/// Draws the weights as PyTorch's constructors do (uniform in +-1/sqrt(fan
/// in)), from a generator of its own: neither the global generator nor other
/// threads have an influence. The float32 weights are those that PyTorch makes
/// after torch.manual_seed(seed); float64 weights have the same values.
void initialise(network& net, uint64_t seed);

} // namespace troupe::models
