#pragma once
// A network that is all tensors and little computation. A free function.

#include <cstdint>
#include <filesystem>

namespace troupe::bench {

/// Writes 784-WIDTH-10 with ReLU between as a TorchScript file; of the width
/// that is given here it has 11.1 M parameters.
void write_wide_network(const std::filesystem::path& file,
                        int64_t width = 14000);

} // namespace troupe::bench
