#pragma once
// `--evaluate`: scores the weights of a file or a checkpoint over the test set,
// in this process and without actors. Called by main; not thread-safe.

#include "config/sources/resolve.hpp"
#include "config/text/failure.hpp"

#include <functional>

namespace troupe::app {

/// Writes config.ini, metrics.jsonl and summary.json to a run directory of its
/// own, and the score to stdout. `interrupted` says whether the user has asked
/// to stop; then there is no score, and the result is `try_again`. Throws
/// `failure`.
exit_status evaluate(const config::resolved& config,
                     const std::function<bool()>& interrupted);

} // namespace troupe::app
