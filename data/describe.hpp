#pragma once
// The data's part of a run's description (config/runs/description.hpp).
// Pure; any thread.

#include "config/runs/description.hpp"
#include "data/dataset.hpp"

#include <string>

namespace troupe::data {

/// Describes the loaded parts; null for those that are not. Reads all labels,
/// and the bytes in memory or the list of files: less than a second for a
/// million files.
config::data_description describe(const dataset* train, const dataset* test);

/// Throws `run_error` if the run at `where` is scored on other data.
void require_same_test(const config::run_description& run, const dataset& test,
                       const std::string& where);

} // namespace troupe::data
