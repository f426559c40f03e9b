#pragma once
// What a run's description says of its data (config/description.hpp).

#include "config/sources/description.hpp"
#include "data/dataset.hpp"

namespace troupe::data {

/// Of the parts that are at hand; null for those that are not. Looks at the
/// labels of all samples, and at what is in memory or listed already: of a
/// million files that takes less than a second.
config::data_description describe(const dataset* train, const dataset* test);

} // namespace troupe::data
