#pragma once
// What this release knows and what it cannot do yet, in one place. A setting
// that would be ignored is refused here in plain words; the line goes when the
// feature comes.

#include <span>
#include <string>

namespace troupe::config {

class resolved;

/// The names of the models' registry, in its order.
std::span<const std::string> known_networks();
/// One more, of the user's program. Before main begins.
void add_network(std::string name);
/// The names of the data's registry, in its order.
std::span<const std::string> known_datasets();
std::span<const std::string> known_optimizers();
std::span<const std::string> known_transports();

/// Whether the samples of `dataset` come from files in `data-dir`.
bool reads_files(const std::string& dataset);

/// Throws `usage_error` when the settings ask for what this release lacks.
void refuse_unavailable(const resolved& what);

} // namespace troupe::config
