#pragma once
// What a parameter server starts from: settings, data, and a checkpoint or
// nothing.

#include "actors/parameter_server.hpp"
#include "apps/trainer_node/replay.hpp"
#include "config/resolve.hpp"
#include "config/train_dir.hpp"
#include "data/dataset.hpp"

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace troupe::app {

/// Takes a line for the user.
using speech = std::function<void(const std::string&)>;

inline bool is_virtual(const config::settings& settings) {
  return settings.simulation.clock == config::clock_kind::virtual_time;
}

inline bool has_faults(const config::settings& settings) {
  return !settings.simulation.faults.empty();
}

/// What a run starts from: nothing, or the checkpoint of an earlier start.
struct origin {
  config::run_directory directory;
  std::shared_ptr<const models::loaded_checkpoint> checkpoint; ///< Or null.
  std::string run_id;
  incarnation life{1};

  std::filesystem::path checkpoints() const {
    return directory.path / "checkpoints";
  }
};

/// Opens the run directory and finds the checkpoint to go on from, if any.
/// Throws `failure`.
origin find_origin(const config::settings& settings, const speech& say);

/// A replay begins as its run did, in a directory of its own. Throws `failure`.
origin origin_of(const replay_plan& plan);

/// The samples of the run; none where nothing is trained. Throws `failure`.
data::dataset_pair load_data(const config::settings& settings);

/// Classes of the data, or what stands for them where there are none.
int64_t classes_of(const data::dataset_pair& data);

/// All but the actors that serve it.
parameter_server_parts make_server_parts(const config::resolved& config,
                                         const data::dataset_pair& data,
                                         const origin& from);

/// Why nothing is left to do, when a complete run is resumed as it is.
std::optional<std::string> complete_already(const parameter_server_parts& parts,
                                            const origin& from);

/// Changes the run directory, once the checkpoint is known to fit, and finds
/// out what best weights it has. Throws `run_error`.
void settle(const origin& from, parameter_server_parts& parts,
            const speech& say);

} // namespace troupe::app
