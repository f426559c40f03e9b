#pragma once
// How large the model of a run is, as far as that is known without reading a
// sample.

#include "config/report/plan.hpp"
#include "models/layout/flat_layout.hpp"

namespace troupe::app {

/// Each shard owns a page of the weights at least. Throws `usage_error`.
void require_shards(const config::resolved& config,
                    const models::flat_layout& layout);

/// Looks for the files of the data set. Throws `failure` when they are absent,
/// or the run could not start for what they show.
config::model_size sizes_of(const config::resolved& config);

} // namespace troupe::app
