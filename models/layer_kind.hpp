#pragma once
// What a layer is, by its class.

#include <optional>
#include <string>

namespace torch::nn {
class Module;
} // namespace torch::nn

namespace troupe::models {

/// Whether the layer normalises (batch, layer, group, instance, RMS
/// normalisation), as far as its class says; nothing for a class that is not
/// PyTorch's. A layer of a script has the name of its class in Python.
std::optional<bool> normalises(const torch::nn::Module& layer);

} // namespace troupe::models
