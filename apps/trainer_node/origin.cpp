#include "apps/trainer_node/origin.hpp"

#include "actors/restore.hpp"
#include "actors/restore_ledger.hpp"
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

void require_suitable(const config::settings& settings,
                      const data::dataset& set) {
  models::require_suitable(settings.training.network, set.name(), set.shape(),
                           set.classes());
}

/// The files of each rank, where all of them are in this process: the folders
/// that `data split` makes.
run_data load_parts(const config::settings& settings) {
  run_data out;
  auto what = settings.data;
  for (uint32_t rank = 0; rank < settings.cluster.workers; ++rank) {
    auto folder = std::filesystem::path{settings.data.data_dir} /
                  ("part-" + std::to_string(rank));
    if (!std::filesystem::is_directory(folder))
      throw run_error(folder.string() +
                      ": no such folder; --simulate --sharding local needs "
                      "part-0 to part-" +
                      std::to_string(settings.cluster.workers - 1) +
                      " in the data-dir: trainer_node data split makes them");
    what.data_dir = folder.string();
    auto sets = data::load_dataset(what, settings.training.seed);
    if (rank == 0)
      out = {sets.train->name(), sets.train->classes(), 0, sets, {}};
    if (sets.train->classes() != out.classes)
      throw run_error(folder.string() + ": has " +
                      std::to_string(sets.train->classes()) +
                      " classes, part-0 has " + std::to_string(out.classes));
    require_suitable(settings, *sets.train);
    out.own.push_back(sets.train);
  }
  return out;
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
  if (!from.checkpoint) {
    make_ledger(parts); // Is there enough data for all?
  } else {
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

run_data load_data(const config::settings& settings) {
  if (!trains(settings))
    return {"none", usual_classes, samples_of_none(settings), {}, {}};
  auto local = settings.data.sharding == config::sharding_kind::local;
  if (local && settings.what == config::role::simulate)
    return load_parts(settings);
  if (local)
    if (auto facts = data::facts_of(settings.data.dataset)) {
      const auto& shape = facts->shape;
      models::require_suitable(settings.training.network, settings.data.dataset,
                               {shape.begin(), shape.end()}, facts->classes);
      return {settings.data.dataset, facts->classes, 0, {}, {}};
    }
  auto alone = settings.what == config::role::ps;
  auto sets =
    data::load_dataset(settings.data, settings.training.seed,
                       alone ? data::data_part::train : data::data_part::both);
  if (!local)
    data::require_batch(*sets.train, settings.training.batch_size);
  require_suitable(settings, *sets.train);
  return {sets.train->name(),
          sets.train->classes(),
          local ? 0 : sets.train->size(),
          sets,
          {}};
}

parameter_server_parts make_server_parts(const config::resolved& config,
                                         const run_data& data,
                                         const origin& from) {
  const auto& settings = config.values;
  parameter_server_parts out;
  out.settings = settings;
  out.config_ini = config::to_ini(settings);
  out.config_digest = config::digest(settings);
  out.run_id = from.run_id;
  out.dataset = data.name;
  out.samples = data.samples;
  out.classes = data.classes;
  out.life = from.life;
  out.resumed = from.checkpoint;
  return out;
}

} // namespace troupe::app
