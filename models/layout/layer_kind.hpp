#pragma once
// Recognises normalising layers by their class, for weight decay exclusions.
// Stateless; any thread.

#include <optional>
#include <string>

namespace torch::nn {
class Module;
} // namespace torch::nn

namespace troupe::models {

/// Whether the layer normalises (batch, layer, group, instance or RMS
/// normalisation); nothing for a class that is not PyTorch's. For a layer of a
/// script, the name of its Python class is used.
std::optional<bool> normalises(const torch::nn::Module& layer);

} // namespace troupe::models
