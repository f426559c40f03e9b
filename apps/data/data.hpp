#pragma once
// `trainer_node data`: inspects the files of a data set, and splits one. Called
// by main; not thread-safe for the same folder.

#include "config/text/failure.hpp"
#include "data/formats/registry.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace troupe::app {

/// Runs the command with the arguments after `data`. Throws `failure`.
exit_status data_verb(const std::vector<std::string>& arguments);

/// The data set whose files a folder contains. Throws `run_error` if it
/// contains those of no known one.
std::string recognise(const std::filesystem::path& folder);

/// Reads every sample and reports on stdout what there is, what is left out and
/// what is damaged. Returns true. Throws `run_error` if something is damaged.
bool check_data(const config::data_settings& settings);

/// Splits the training samples of a set into folders OUT/part-0 to
/// OUT/part-<N-1>, of the same format. Each class is divided evenly, and each
/// folder gets all test samples. `out` appears complete or not at all. Throws
/// `failure`.
void split_data(const config::data_settings& settings, uint32_t parts,
                const std::filesystem::path& out);

} // namespace troupe::app
