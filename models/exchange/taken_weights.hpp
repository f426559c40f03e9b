#pragma once
// The first weights of a run, taken from a file that somebody else made
// (`--init`). Not thread-safe for the same buffer.

#include "config/patterns/key_patterns.hpp"
#include "models/exchange/weights_file.hpp"
#include "models/layout/flat_layout.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace troupe::models {

struct taken_weights {
  size_t count = 0; ///< Of tensors that come from the file.
  /// Those of the network that were left as they are, in its order.
  std::vector<std::string> skipped;
  /// How names were read that did not fit as they are, for the user; or empty.
  std::string names;
};

/// Copies parameters and statistics into `to`, which fits the layout, and
/// converts them to its type; constants too, as far as the file has them. The
/// file need not have keys that `skip` matches, and may have more of them.
/// Counters are not taken: they count this run's versions. Where names do not
/// fit as they are, what wrappers put into them is taken off: off those of the
/// file first, then off those of the network.
/// @throws run_error, with the file and the names, if keys are missing or too
/// many, a shape or type is wrong, or a number that is trained is not finite;
/// usage_error if a pattern matches nothing. `to` is arbitrary then.
taken_weights take_weights(const weights_file& from, const std::string& network,
                           const flat_layout& layout,
                           const config::key_patterns& skip,
                           const whole_weights& to);

} // namespace troupe::models
