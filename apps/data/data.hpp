#pragma once
// `trainer_node data`: looks at the files of a data set, and cuts one.

#include "config/text/failure.hpp"
#include "data/formats/registry.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace troupe::app {

/// Does what the arguments after `data` ask for. Throws `failure`.
exit_status data_verb(const std::vector<std::string>& arguments);

/// The data set whose files a folder holds. Throws `run_error` if it holds
/// those of none.
std::string recognise(const std::filesystem::path& folder);

/// Reads every sample and says on stdout what there is. Answers whether all of
/// it can be used. Throws `run_error` about what makes all of it useless.
bool check_data(const config::data_settings& what);

/// Cuts the samples for training of a set into folders OUT/part-0 to
/// OUT/part-<N-1>, of the same format. Each class is shared out evenly, and
/// each folder gets all samples for testing. `out` appears whole or not at all.
/// Throws `failure`.
void split_data(const config::data_settings& what, uint32_t parts,
                const std::filesystem::path& out);

} // namespace troupe::app
