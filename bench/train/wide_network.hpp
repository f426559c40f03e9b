#pragma once
// A network that is all tensors and little computation. A free function.

#include <filesystem>

namespace troupe::bench {

/// Writes 784-14000-10 with ReLU between (11.1 M parameters) as a TorchScript
/// file.
void write_wide_network(const std::filesystem::path& file);

} // namespace troupe::bench
