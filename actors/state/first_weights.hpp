#pragma once
// The weights that a run begins with when they come from a file (`--init`).
// Made before the parameter server's actors; a value, shared for reading.

#include "config/sources/description.hpp"
#include "config/text/settings.hpp"

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

namespace troupe {

struct first_weights {
  at::Tensor flat; ///< Of the network's layout.
  config::weights_origin from;
  std::vector<std::string> lines; ///< For the user: what was taken.
};

/// Reads the file of `settings.init`; null if there is none. Parameters that
/// are skipped are drawn from the seed. Throws `run_error` if the file does not
/// fit the network, `usage_error` if a pattern matches nothing.
std::shared_ptr<const first_weights>
read_first_weights(const config::training_settings& settings, int64_t classes);

} // namespace troupe
