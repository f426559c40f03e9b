#include "apps/trainer_node/origin.hpp"

#include "actors/recording/log_lines.hpp"
#include "actors/server/restore.hpp"
#include "actors/server/restore_ledger.hpp"
#include "actors/worker/worker_files.hpp"
#include "apps/startup/next_life.hpp"
#include "config/report/report.hpp"
#include "config/runs/shared_settings.hpp"
#include "config/text/failure.hpp"
#include "config/text/text.hpp"
#include "config/values/script.hpp"
#include "data/describe.hpp"
#include "messages/run_record.hpp"
#include "models/engine/tensor_memory.hpp"
#include "models/networks/registry.hpp"
#include "models/storage/checkpoint.hpp"
#include "models/storage/durable_file.hpp"
#include "models/storage/lives.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <random>
#include <span>

namespace troupe::app {

namespace {

namespace fs = std::filesystem;

/// A virtual run has the same id each time it is repeated.
std::string new_run_id(const config::settings& settings) {
  if (is_virtual(settings))
    return "virtual-" + config::digest(settings);
  std::random_device source;
  char text[17];
  std::snprintf(text, sizeof text, "%08x%08x", source(), source());
  return text;
}

/// The samples of an epoch without data. Epochs are needed only where restarts
/// must keep account of samples: then one has a few leases, the last one short.
uint64_t samples_of_none(const config::settings& settings) {
  auto batch = settings.training.batch_size;
  return has_faults(settings) ? 20 * batch + (batch + 1) / 2 : cores::endless;
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
    what.data_dir = part_folder(settings, rank).string();
    auto sets = data::load_dataset(what, settings.training.seed);
    if (rank == 0)
      out = {sets.train->name(),
             sets.train->classes(),
             0,
             sets,
             {},
             data::describe(nullptr, sets.test.get())};
    require_same_classes(what.data_dir, sets.train->classes(), out.classes);
    require_suitable(settings, *sets.train);
    out.own.push_back(sets.train);
  }
  return out;
}

/// Throws if a start that goes on names another file of first weights than the
/// run began with. It may name the same one, as scripts do that always start
/// alike; that file need not be there any more.
void require_same_init(const config::weights_origin& run,
                       const config::resolved& given) {
  const auto& file = given.values.training.init;
  std::error_code error;
  if (!given.is_explicit("training.init") || file.empty() ||
      (!std::filesystem::exists(file, error) && file == run.file))
    return;
  if (run.file.empty())
    throw usage_error(given.cite("training.init") +
                      ": the run began without such a file, and goes on from "
                      "its checkpoint; leave it out");
  if (auto here = models::digest_of_file(file); here != run.sha256)
    throw usage_error(given.cite("training.init") + ": the run began with " +
                      config::shown(run.file) + " of SHA-256 " + run.sha256 +
                      ", and this file has " + here + "; leave it out");
}

/// Opens the file that describes the network; null if no file does. To be
/// called before a run is overwritten, whose folder may hold the file.
std::unique_ptr<const config::input_file>
open_network(const config::training_settings& training) {
  return config::is_described(training.network)
           ? models::open_file(config::network_file(training.network))
           : nullptr;
}

void copy_file(const config::input_file& from, const fs::path& to,
               const std::string& where) {
  std::vector<std::byte> block(1 << 20);
  models::replace_file(to, [&](models::output_file& out) {
    for (uint64_t at = 0; at < from.size();) {
      auto piece = std::span{block}.first(
        std::min<uint64_t>(block.size(), from.size() - at));
      models::read_exactly(from, at, piece, where);
      out.write(piece);
      at += piece.size();
    }
  });
}

/// Keeps the description of the network in the run directory: the run goes on
/// from there, whatever becomes of the given file.
void keep_network(const origin& from, const config::input_file& given,
                  parameter_server_parts& parts) {
  auto& network = parts.settings.training.network;
  auto folder = fs::absolute(from.directory.path).lexically_normal();
  auto kept = config::kept_description(folder);
  if (!kept || !from.checkpoint) {
    auto inner = folder / config::described_folder;
    models::make_folder(inner);
    if (!kept)
      kept = inner / (config::short_name(network) + ".safetensors");
    copy_file(given, *kept, config::network_file(network));
  }
  network = config::described_by(*kept);
  parts.description.settings = config::shared_settings(parts.settings);
}

bool is_of_this_life(const config::change& change,
                     const parameter_server_parts& parts) {
  return change.life == parts.life().value;
}

/// The newest checkpoint says what the run is. So the settings which the user
/// has changed are written to it, before anybody is told of the changes: the
/// next life may begin from this checkpoint.
void keep_changes(const origin& from, const parameter_server_parts& parts) {
  const auto& newest = *from.checkpoint;
  auto is_own = newest.path.parent_path() == from.checkpoints();
  auto any =
    std::ranges::any_of(parts.description.changes, [&](const auto& one) {
      return is_of_this_life(one, parts);
    });
  if (!is_own || !any)
    return;
  auto manifest = newest.manifest;
  manifest.set_config_ini(config::to_ini(parts.settings));
  put(parts.description, *manifest.mutable_description());
  models::replace_manifest(newest.path, std::move(manifest));
}

} // namespace

// -- checkpoint and run directory ---------------------------------------------

origin find_origin(const config::settings& settings, const speech& say,
                   const earlier_start& known) {
  origin out;
  out.directory = config::open_run_directory(settings.training, {}, known.lock);
  if (const auto& warning = out.directory.lock->warning(); !warning.empty())
    say("warning      " + warning +
        (survives_losses(settings)
           ? "; no other node can lead this run when this one is lost"
           : ""));
  out.checkpoint = known.checkpoint;
  if (!out.checkpoint && !out.directory.overwrites) {
    models::remove_leftovers(out.checkpoints());
    out.checkpoint = find_checkpoint(settings, out.directory.path, say);
  }
  uint32_t before = 0;
  if (!out.directory.overwrites)
    before = models::last_life(out.directory.path);
  if (out.checkpoint) {
    const auto& manifest = out.checkpoint->manifest;
    before = std::max(before, manifest.ps_incarnation());
    out.run_id = manifest.run_id();
  } else {
    out.run_id = new_run_id(settings);
  }
  out.life = life_number{before + 1};
  return out;
}

void load_first_weights(parameter_server_parts& parts,
                        const config::resolved& config, const origin& from,
                        const speech& say) {
  if (from.checkpoint) {
    parts.description.init = description_of(from.checkpoint->manifest).init;
    require_same_init(parts.description.init, config);
    if (trains(parts.settings))
      parts.from.frozen = frozen_weights(parts.settings.training,
                                         parts.data.classes, *from.checkpoint);
  } else if (trains(parts.settings)) {
    parts.from.first =
      make_first_weights(parts.settings.training, parts.data.classes);
    parts.from.frozen = frozen_weights(*parts.from.first);
    parts.description.init = parts.from.first->from;
    for (const auto& line : parts.from.first->lines)
      say("init         " + line);
    // The network that drew these weights took as much memory as they do.
    models::give_back_kept_tensor_memory();
  }
}

std::optional<std::string> complete_already(const parameter_server_parts& parts,
                                            const origin& from) {
  if (!from.checkpoint ||
      !std::filesystem::exists(from.directory.path / "summary.json"))
    return std::nullopt;
  return make_step_scheduler(parts).reached();
}

void begin_life(origin& from, parameter_server_parts& parts,
                const speech& say) {
  const auto& folder = from.directory.path;
  if (from.checkpoint)
    require_fitting(parts);
  else
    make_ledger(parts); // Throws unless there is data for all.
  auto network = open_network(parts.settings.training);
  if (from.directory.overwrites) {
    if (!parts.settings.training.overwrite)
      say("replaced     the run in " + folder.string() +
          ", which made no update");
    config::remove_run(folder);
  }
  from.claim = models::note_life(folder, parts.life().value);
  recording::log_lines::of_process().seated({}, parts.life().value);
  // It would tell other processes that the run is over.
  models::remove_file(folder / "summary.json");
  if (from.checkpoint) {
    auto step = from.checkpoint->manifest.step();
    models::set_aside_newer(from.checkpoints(), step, say);
    forget_carried({folder, 0, from.run_id}, version{step});
  }
  if (parts.settings.checkpoint.keep_best != config::best_rule::nothing)
    parts.from.best = models::open_best(folder, from.run_id, say);
  // After a loss of power a checkpoint is useless if its folder is not there.
  models::sync_names(folder);
  if (network)
    keep_network(from, *network, parts);
  models::replace_file(
    folder / "config.ini",
    config::to_ini(parts.settings, parts.description.changes));
  if (from.checkpoint)
    keep_changes(from, parts);
  for (const auto& what : parts.description.changes)
    if (is_of_this_life(what, parts))
      say("changed      " + what.key + ": " + config::or_not_set(what.before) +
          " before, " + config::or_not_set(what.after) + " from step " +
          std::to_string(what.step) + " on");
}

// -- data ---------------------------------------------------------------------

bool trains(const config::settings& settings) {
  return settings.simulation.gradients != "none";
}

std::filesystem::path part_folder(const config::settings& settings,
                                  uint32_t rank) {
  auto folder = std::filesystem::path{settings.data.data_dir} /
                ("part-" + std::to_string(rank));
  if (!std::filesystem::is_directory(folder))
    throw run_error(folder.string() +
                    ": no such folder; --simulate --sharding local needs "
                    "part-0 to part-" +
                    std::to_string(settings.cluster.workers - 1) +
                    " in the data-dir: trainer_node data split makes them");
  return folder;
}

void require_same_classes(const std::string& folder, int64_t classes,
                          int64_t of_first) {
  if (classes != of_first)
    throw run_error(folder + ": has " + std::to_string(classes) +
                    " classes, part-0 has " + std::to_string(of_first));
}

namespace {

run_data data_of_server(const config::settings& settings) {
  if (!trains(settings))
    return {"none", classes_of_none, samples_of_none(settings), {}, {}, {}};
  auto local = settings.data.sharding == config::sharding_kind::local;
  if (local && settings.what == config::role::simulate)
    return load_parts(settings);
  if (local)
    if (auto facts = data::facts_of(settings.data.dataset)) {
      const auto& shape = facts->shape;
      models::require_suitable(settings.training.network, settings.data.dataset,
                               {shape.begin(), shape.end()}, facts->classes);
      run_data out{settings.data.dataset, facts->classes, 0, {}, {}, {}};
      out.description.name = out.name;
      out.description.classes = static_cast<uint64_t>(out.classes);
      std::ranges::copy(shape, out.description.shape.begin());
      return out;
    }
  // Other nodes compare their data with both descriptions; the parameter server
  // does not need the samples themselves.
  auto sets = data::load_dataset(settings.data, settings.training.seed,
                                 data::data_part::both);
  if (!local)
    data::require_batch(*sets.train, settings.training.batch_size);
  require_suitable(settings, *sets.train);
  return {sets.train->name(),
          sets.train->classes(),
          local ? 0 : sets.train->size(),
          sets,
          {},
          data::describe(local ? nullptr : sets.train.get(), sets.test.get())};
}

config::run_description describe(const config::resolved& config,
                                 const run_data& data, const origin& from) {
  const auto& settings = config.values;
  config::run_description out;
  out.run_id = from.run_id;
  out.life = from.life.value;
  out.settings = config::shared_settings(settings);
  out.data = data.description;
  out.network_sha256 = models::digest_of_network(settings.training.network);
  if (from.changes)
    out.changes = *from.changes;
  if (from.changes || !from.checkpoint)
    return out;
  out.changes = description_of(from.checkpoint->manifest).changes;
  for (auto what : config.changes) {
    what.step = from.checkpoint->manifest.step();
    what.life = from.life.value;
    out.changes.push_back(std::move(what));
  }
  return out;
}

} // namespace

run_data load_data(const config::settings& settings, const speech& say) {
  auto out = data_of_server(settings);
  const auto& [train, test] = out.sets;
  if (train && !train->without().empty())
    say("left out     train: " + train->without());
  if (test && !test->without().empty())
    say("left out     test: " + test->without());
  return out;
}

parameter_server_parts make_server_parts(const config::resolved& config,
                                         const run_data& data,
                                         const origin& from) {
  const auto& settings = config.values;
  parameter_server_parts out;
  out.settings = settings;
  out.description = describe(config, data, from);
  out.data = {data.name, data.samples, data.classes};
  out.from.resumed = from.checkpoint;
  out.checkpoints = from.checkpoints();
  out.rules = from.rules;
  return out;
}

} // namespace troupe::app
