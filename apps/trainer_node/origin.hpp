#pragma once
// What a parameter server starts from: settings, data, and possibly a
// checkpoint. Called by main while the process starts; not thread-safe.

#include "actors/server/parameter_server.hpp"
#include "apps/startup/earlier_start.hpp"
#include "apps/startup/speech.hpp"
#include "config/run_folder/train_dir.hpp"
#include "config/runs/description.hpp"
#include "config/sources/resolve.hpp"
#include "data/dataset.hpp"
#include "models/storage/lives.hpp"

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe::app {

inline bool has_faults(const config::settings& settings) {
  return !settings.simulation.faults.empty();
}

/// What a run starts from: nothing, or the checkpoint of an earlier start.
struct origin {
  config::run_directory directory;
  std::shared_ptr<const models::loaded_checkpoint> checkpoint; ///< Or null.
  std::string run_id;
  life_number life{1};
  models::life_claim_ptr claim = nullptr;  ///< Once the life has begun.
  uint32_t rules = policies::newest_rules; ///< Of decision, in this life.
  /// The changed settings, as a replay knows them; nothing: they follow from
  /// the checkpoint and the settings of this start.
  std::optional<std::vector<config::change>> changes = {};

  std::filesystem::path checkpoints() const {
    return directory.path / "checkpoints";
  }
};

/// Opens the run directory and finds the checkpoint to continue from, if any,
/// unless that was done before. Throws `failure`.
origin find_origin(const config::settings& settings, const speech& say,
                   const earlier_start& known = {});

/// The classes of a network that is not trained: only its size counts.
inline constexpr int64_t classes_of_none = 10;

/// The data that a run is trained on, as this process knows it.
struct run_data {
  std::string name;        ///< Name of the data set.
  int64_t classes = 0;     ///< A placeholder if nothing is trained.
  uint64_t samples = 0;    ///< As in `parameter_server_parts`.
  data::dataset_pair sets; ///< Null if this process needs none.
  /// With `--sharding local` in one process: the training set of each rank.
  std::vector<std::shared_ptr<const data::dataset>> own;
  config::data_description description; ///< Of the data all nodes share.
};

/// False for a virtual run that only schedules (`--gradients none`).
bool trains(const config::settings& settings);

/// The folder of a rank's files, made by `data split`, for a run in one
/// process. Throws `run_error` when it is missing.
std::filesystem::path part_folder(const config::settings& settings,
                                  uint32_t rank);

/// Throws `run_error` unless the part has the same classes as the first one.
void require_same_classes(const std::string& folder, int64_t classes,
                          int64_t of_first);

/// Loads the data that this process needs. Says what is left out of a set.
/// Throws `failure`.
run_data load_data(const config::settings& settings, const speech& say);

/// The parts of the parameter server, except for the actors that it uses.
parameter_server_parts make_server_parts(const config::resolved& config,
                                         const run_data& data,
                                         const origin& from);

/// Reads the file of the first weights, if the run begins with one; a run that
/// goes on keeps what is known of its own. Throws `run_error`; throws
/// `usage_error` if a run that goes on is given another file than it began
/// with.
void load_first_weights(parameter_server_parts& parts,
                        const config::resolved& config, const origin& from,
                        const speech& say);

/// Why nothing is left to do, if a complete run is resumed without changes.
std::optional<std::string> complete_already(const parameter_server_parts& parts,
                                            const origin& from);

/// Begins a life in the run directory, after all checks have passed: removes
/// what is overwritten, renames what is rolled back, records the new life,
/// which `from` then claims, and looks for the best weights. Throws
/// `run_error`.
void begin_life(origin& from, parameter_server_parts& parts, const speech& say);

} // namespace troupe::app
