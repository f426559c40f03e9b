#pragma once
// The interface of a neural network to the rest of Troupe: its module, whose
// parameters are bound to flat memory, and its forward pass. A compute engine
// owns one; each computing thread has its own replica.

#include "config/patterns/param_groups.hpp"
#include "config/text/settings.hpp"
#include "models/dropout.hpp"
#include "models/gradient_places.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace torch::nn {
class Module;
} // namespace torch::nn

namespace troupe::models {

/// How the initial weights are drawn. Biases of convolutions follow the same
/// rule; batch normalisation starts with weight 1 and bias 0.
enum class weight_rule : uint8_t {
  /// PyTorch's default: uniform in +-1/sqrt(fan in), biases too.
  uniform,
  /// Convolutions normal with deviation sqrt(2 / fan out) (He et al., "Delving
  /// deep into rectifiers", 2015), biases 0; fully connected layers as above.
  resnet,
  /// Convolutions as resnet's; fully connected layers normal with deviation
  /// 0.01, biases 0.
  vgg
};

/// What a forward pass needs besides inputs and weights.
struct pass_context {
  const gradient_places& places; ///< Where backward is to write gradients.
  const std::optional<dropout_key>& drop; ///< Nothing: no dropout.
};

/// One of the parts that a forward pass goes through, one after the other.
struct network_part {
  using function =
    std::function<at::Tensor(const at::Tensor& inputs, const pass_context&)>;

  /// The modules whose parameters it has: paths in the network's module, in the
  /// order of the state_dict.
  std::vector<std::string> modules;
  function forward;
};

/// Parts `first` to `last - 1` of a network.
struct part_range {
  size_t first = 0;
  size_t last = SIZE_MAX; ///< Or more than there are: to the end.

  bool operator==(const part_range&) const = default;
};

/// A tensor of the state dict that nobody here computes with: a mask, an index,
/// a frozen weight of another type. It keeps its own type, whatever the
/// network's is.
struct constant_tensor {
  std::string name;
  std::string dtype; ///< As safetensors calls it.
  std::vector<int64_t> shape;
  std::string same_as; ///< Its first name, if this is another one; else empty.
};

/// One replica of a network. Not thread-safe: each computing thread has its
/// own replica.
class network {
public:
  virtual ~network();

  /// Owns the parameters; their order is that of named_parameters(), which is
  /// that of the state_dict.
  virtual torch::nn::Module& module() = 0;

  /// @param inputs [n, C, H, W]
  /// @param places Where backward is to write gradients. A gradient without a
  /// place, or of a layer that cannot use it, lies where LibTorch puts it.
  /// @returns scores before softmax, [n, classes].
  /// @param drop Keys of the dropout masks; without it dropout does nothing.
  virtual at::Tensor forward(const at::Tensor& inputs,
                             const gradient_places& places = {},
                             const std::optional<dropout_key>& drop = {}) = 0;

  /// The parts that `forward` goes through, if they are known: all of them make
  /// the scores of the inputs. Empty: the network is one part.
  virtual const std::vector<network_part>& parts();

  virtual weight_rule initial_weights() const { return weight_rule::uniform; }

  /// The numbers that parameters have of their own in training, by name.
  virtual std::map<std::string, config::group_numbers> groups() const {
    return {};
  }

  /// What belongs to its state dict besides the tensors of the module.
  virtual std::vector<constant_tensor> constants() const { return {}; }

  /// Copies the first value of one of them, by its first name, to `to`, which
  /// is as large.
  virtual void read_constant(const std::string& name, std::span<std::byte> to);

  /// Sets initial weights of its own; returns false if they are to be drawn.
  virtual bool restore() { return false; }
};

/// Makes a network by name. Its weights are arbitrary until `initialise` or
/// until they are bound.
/// @param name One of the registry, script:FILE or weights:FILE.
/// @throws usage_error if the name is unknown; the line lists those that are.
/// run_error if a file cannot be loaded.
std::shared_ptr<network> make_network(const std::string& name, int64_t classes,
                                      config::scalar_type dtype);

/// The names that make_network accepts.
std::vector<std::string> network_names();

/// Draws the weights by the network's rule, from a generator of its own:
/// neither the global generator nor other threads influence them. Resets the
/// running statistics. With the rule `uniform` float32 weights are those that
/// PyTorch's constructors make after torch.manual_seed(seed); float64 weights
/// have the same values.
void initialise(network& net, uint64_t seed);

} // namespace troupe::models
