#pragma once
// The names that a setting may have, for checks and help before anything is
// loaded: config links neither LibTorch nor data formats. Tests hold the lists
// to the registries.

#include <span>
#include <string>

namespace troupe::config {

/// The names of the models' registry, in its order.
std::span<const std::string> known_networks();
/// One more, of the user's program. Before main begins.
void add_network(std::string name);
/// The names of the data's registry, in its order.
std::span<const std::string> known_datasets();
std::span<const std::string> known_optimizers();

/// Whether the samples of `dataset` come from files in `data-dir`.
bool reads_files(const std::string& dataset);

} // namespace troupe::config
