#pragma once
// The size of a run's model, as far as it is known without reading a sample.
// Free functions, called by main before a run.

#include "config/report/plan.hpp"
#include "models/layout/flat_layout.hpp"

namespace troupe::app {

/// Checks that each shard gets at least one page of the weights. Throws
/// `usage_error`.
void require_shards(const config::resolved& config,
                    const models::flat_layout& layout);

/// Looks for the files of the data set. Throws `failure` when they are missing,
/// or show that the run could not start.
config::model_size sizes_of(const config::resolved& config);

} // namespace troupe::app
