#pragma once
// What a parameter server starts from: settings, data, and a checkpoint or
// nothing.

#include "actors/server/parameter_server.hpp"
#include "apps/trainer_node/earlier_start.hpp"
#include "apps/trainer_node/replay.hpp"
#include "config/sources/description.hpp"
#include "config/sources/resolve.hpp"
#include "config/sources/train_dir.hpp"
#include "data/dataset.hpp"

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

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

/// Opens the run directory and finds the checkpoint to go on from, if any,
/// unless that was done before. Throws `failure`.
origin find_origin(const config::settings& settings, const speech& say,
                   const earlier_start& known = {});

/// A replay begins as its run did, in a directory of its own. Throws `failure`.
origin origin_of(const replay_plan& plan);

/// What a run is trained on, as this process knows it.
struct run_data {
  std::string name;     ///< Of the data set.
  int64_t classes = 0;  ///< Or what stands for them where nothing is trained.
  uint64_t samples = 0; ///< As in the server's parts.
  data::dataset_pair sets; ///< Null where this process needs none.
  /// `--sharding local` in one process: what each rank trains on.
  std::vector<std::shared_ptr<const data::dataset>> own;
  config::data_description description; ///< Of what all nodes share.
};

/// False where a virtual run only schedules.
bool trains(const config::settings& settings);

/// Where the files of a rank lie that `data split` has made, for a run in one
/// process. Throws `run_error` when they do not.
std::filesystem::path part_folder(const config::settings& settings,
                                  uint32_t rank);

/// Throws `run_error` unless a part has the classes of the first one.
void require_same_classes(const std::string& folder, int64_t classes,
                          int64_t of_first);

/// Loads what is needed. Throws `failure`.
run_data load_data(const config::settings& settings);

/// All but the actors that serve it.
parameter_server_parts make_server_parts(const config::resolved& config,
                                         const run_data& data,
                                         const origin& from);

/// Why nothing is left to do, when a complete run is resumed as it is.
std::optional<std::string> complete_already(const parameter_server_parts& parts,
                                            const origin& from);

/// Changes the run directory, once all is known to fit: removes what is
/// overwritten, sets aside what is rolled back, notes the new life, and finds
/// out what best weights there are. Throws `run_error`.
void settle(const origin& from, parameter_server_parts& parts,
            const speech& say);

} // namespace troupe::app
