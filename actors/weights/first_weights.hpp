#pragma once
// The weights that a run begins with: those of a file (`--init`), or drawn from
// the seed. Made before the parameter server's actors; a value, shared for
// reading.

#include "config/runs/description.hpp"
#include "config/text/settings.hpp"
#include "messages/payload.hpp"
#include "models/layout/flat_layout.hpp"
#include "models/storage/checkpoint.hpp"

#include <memory>
#include <string>
#include <vector>

namespace troupe {

struct first_weights {
  models::whole_weights weights;  ///< Of the network's layout.
  config::weights_origin from;    ///< Empty if they are drawn.
  std::vector<std::string> lines; ///< For the user: what was taken.
};

/// Reads the file of `settings.init`; null if there is none. Parameters that
/// are skipped are drawn from the seed. Throws `run_error` if the file does not
/// fit the network, `usage_error` if a pattern matches nothing.
std::shared_ptr<const first_weights>
read_first_weights(const config::training_settings& settings, int64_t classes);

/// The same, or drawn weights if there is no such file.
std::shared_ptr<const first_weights>
make_first_weights(const config::training_settings& settings, int64_t classes);

/// The weights that a run does not train (`--freeze`); empty if all are
/// trained.
payload frozen_weights(const first_weights& first);

/// The same of a checkpoint. Throws `run_error` when it is of another network.
payload frozen_weights(const config::training_settings& settings,
                       int64_t classes, const models::loaded_checkpoint& from);

} // namespace troupe
