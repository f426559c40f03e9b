#pragma once
// The names of networks, data sets and so on, for checks and help before
// anything is loaded: config links neither LibTorch nor data formats. Tests
// compare the lists with the registries. `add_network` is called before main;
// afterwards any thread may read.

#include <span>
#include <string>

namespace troupe::config {

/// The names of the models' registry, in its order.
std::span<const std::string> known_networks();
/// Adds a network of the user's program. To be called before main begins.
void add_network(std::string name);
/// The names of the data's registry, in its order.
std::span<const std::string> known_datasets();
std::span<const std::string> known_optimizers();

/// Whether the samples of `dataset` come from files in `data-dir`.
bool reads_files(const std::string& dataset);

} // namespace troupe::config
