#include "apps/trainer_node/origin.hpp"

#include "actors/restore.hpp"
#include "apps/trainer_node/faulty_cast.hpp"
#include "config/cast.hpp"
#include "config/failure.hpp"
#include "config/report.hpp"
#include "models/checkpoint.hpp"
#include "models/durable_file.hpp"
#include "models/registry.hpp"

#include <cstdio>
#include <random>

namespace troupe::app {

namespace {

bool trains(const config::settings& settings) {
  return settings.simulation.gradients != "none";
}

/// Classes of a network that learns nothing: only its size counts.
constexpr int64_t usual_classes = 10;

/// A virtual run is the same run however often it is made.
std::string new_run_id(const config::settings& settings) {
  if (is_virtual(settings))
    return "virtual-" + config::digest(settings);
  std::random_device source;
  char text[17];
  std::snprintf(text, sizeof text, "%08x%08x", source(), source());
  return text;
}

std::shared_ptr<const models::loaded_checkpoint>
find_checkpoint(const config::settings& settings,
                const std::filesystem::path& folder, const speech& say) {
  const auto& resume = settings.training.resume;
  if (!resume)
    return nullptr;
  auto found = *resume == "auto" ? models::newest_valid(folder, say)
                                 : models::find_checkpoint(*resume, say);
  if (!found && !models::list_checkpoints(folder).empty())
    throw run_error("no usable checkpoint in " + folder.string() +
                    "; --overwrite begins anew");
  if (!found)
    return nullptr;
  return std::make_shared<const models::loaded_checkpoint>(std::move(*found));
}

/// Without data, epochs are of use only where restarts must keep account.
uint64_t samples_of_none(const config::settings& settings) {
  return has_faults(settings) ? samples_without_data(settings) : cores::endless;
}

} // namespace

// -- where it goes on ---------------------------------------------------------

origin find_origin(const config::settings& settings, const speech& say) {
  origin out;
  out.directory = config::open_run_directory(settings.training);
  auto folder = out.checkpoints();
  models::remove_leftovers(folder);
  out.checkpoint = find_checkpoint(settings, folder, say);
  if (!out.checkpoint) {
    out.run_id = new_run_id(settings);
    return out;
  }
  const auto& manifest = out.checkpoint->manifest;
  out.life = incarnation{manifest.ps_incarnation() + 1};
  out.run_id = manifest.run_id();
  return out;
}

origin origin_of(const replay_plan& plan) {
  origin out;
  out.directory = config::open_run_directory(plan.config.values.training);
  out.checkpoint = plan.checkpoint;
  out.run_id = plan.run_id;
  out.life = plan.life;
  return out;
}

std::optional<std::string> complete_already(const parameter_server_parts& parts,
                                            const origin& from) {
  if (!from.checkpoint ||
      !std::filesystem::exists(from.directory.path / "summary.json"))
    return std::nullopt;
  return make_conductor(parts).reached();
}

void settle(const origin& from, parameter_server_parts& parts,
            const speech& say) {
  if (from.checkpoint) {
    require_fitting(parts);
    models::set_aside_newer(from.checkpoints(),
                            from.checkpoint->manifest.step(), say);
  }
  if (parts.settings.checkpoint.keep_best)
    parts.best = models::open_best(from.directory.path, from.run_id);
  models::replace_file(from.directory.path / "config.ini",
                       config::to_ini(parts.settings));
}

// -- what with ----------------------------------------------------------------

data::dataset_pair load_data(const config::settings& settings) {
  if (!trains(settings))
    return {};
  auto out = data::load_dataset(settings.data, settings.training.seed);
  data::require_batch(*out.train, settings.training.batch_size);
  models::require_suitable(settings.training.network, out.train->name(),
                           out.train->shape(), out.train->classes());
  return out;
}

int64_t classes_of(const data::dataset_pair& data) {
  return data.train ? data.train->classes() : usual_classes;
}

parameter_server_parts make_server_parts(const config::resolved& config,
                                         const data::dataset_pair& data,
                                         const origin& from) {
  const auto& settings = config.values;
  parameter_server_parts out;
  out.settings = settings;
  out.config_ini = config::to_ini(settings);
  out.config_digest = config::digest(settings);
  out.run_id = from.run_id;
  out.dataset = data.train ? data.train->name() : "none";
  out.samples = data.train ? data.train->size() : samples_of_none(settings);
  out.classes = classes_of(data);
  out.life = from.life;
  out.resumed = from.checkpoint;
  return out;
}

} // namespace troupe::app
