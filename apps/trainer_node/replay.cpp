#include "apps/trainer_node/replay.hpp"

#include "apps/trainer_node/tape.hpp"
#include "config/cast.hpp"
#include "config/failure.hpp"
#include "config/replay.hpp"
#include "config/version.hpp"
#include "messages/run_record.hpp"
#include "models/best_weights.hpp"
#include "models/checkpoint.hpp"

#include <cstdio>
#include <utility>

namespace troupe::app {

namespace {

namespace fs = std::filesystem;

/// Where the checkpoint may be that a tape begins from.
std::vector<fs::path> places_of(const std::string& name, const fs::path& tape,
                                const std::optional<std::string>& resume) {
  std::vector<fs::path> out;
  auto add_folder = [&](const fs::path& folder) {
    out.push_back(folder / name);
    out.push_back(folder / ("abandoned-" + name));
  };
  if (!resume || *resume == "auto") {
    add_folder(tape.parent_path() / "checkpoints");
    return out;
  }
  out.emplace_back(*resume);
  add_folder(*resume);
  add_folder(fs::path{*resume} / "checkpoints");
  return out;
}

std::string_view sum_of(const proto::Manifest& manifest, const char* file) {
  for (const auto& one : manifest.files())
    if (one.name() == file)
      return one.sha256();
  return {};
}

/// A replay of the life before makes the same checkpoint, with other times in
/// its manifest: what counts are the tensors.
void require_start(const models::loaded_checkpoint& found,
                   const proto::TapeBegin& begin, const fs::path& tape) {
  const auto& manifest = found.manifest;
  if (manifest.step() != begin.start_version() ||
      sum_of(manifest, "model.safetensors") != begin.model_sha256() ||
      sum_of(manifest, "optimizer.safetensors") != begin.optimizer_sha256())
    throw run_error(found.path.string() + ": is not the checkpoint that " +
                    tape.string() + " begins from (step " +
                    std::to_string(begin.start_version()) +
                    ", other weights); name that with --resume PATH");
}

std::shared_ptr<const models::loaded_checkpoint>
find_start(const proto::TapeBegin& begin, const fs::path& tape,
           const std::optional<std::string>& resume) {
  if (begin.checkpoint().empty()) {
    if (resume)
      throw usage_error("--resume " + *resume + ": " + tape.string() +
                        " begins from no checkpoint; leave it out");
    return nullptr;
  }
  auto places = places_of(begin.checkpoint(), tape, resume);
  for (const auto& place : places) {
    if (!fs::exists(place / "manifest.pb"))
      continue;
    auto found = models::read_checkpoint(place);
    require_start(found, begin, tape);
    return std::make_shared<const models::loaded_checkpoint>(std::move(found));
  }
  throw run_error(tape.string() + ": life " + std::to_string(begin.life()) +
                  " of the server began from the checkpoint " +
                  begin.checkpoint() + ", which is not at " +
                  places.front().string() +
                  "; name its place with --resume PATH, or make it again: "
                  "--replay of the tape before with --max-steps " +
                  std::to_string(begin.start_version()));
}

/// Says what may keep gradients from being those of the run, bit by bit.
bool can_be_exact(const proto::TapeBegin& begin,
                  const std::function<void(const std::string&)>& say) {
  std::string why;
  if (begin.threads() != 1)
    why = "its workers used " + std::to_string(begin.threads()) +
          " intra-op threads (record with --threads 1)";
  else if (begin.cpu() != cpu_capability())
    why = "it used the CPU's " + begin.cpu() + ", this machine has " +
          cpu_capability();
  else if (begin.troupe_version() != config::version())
    why = "it was made by trainer_node " + begin.troupe_version();
  if (!why.empty())
    say("replay       the weights may differ from the run's in their last "
        "bits: " +
        why);
  return why.empty();
}

std::string name_of_settings(const fs::path& tape) {
  return tape.string() + " (settings)";
}

} // namespace

std::shared_ptr<const replay_plan>
plan_replay(const config::invocation& call,
            const std::function<void(const std::string&)>& say) {
  const fs::path path = call.tape;
  auto out = std::make_shared<replay_plan>();
  out->tape = std::make_shared<replay::script>(path);
  out->folder = fs::absolute(path).parent_path();
  const auto& begin = out->tape->begin();
  auto settings = config::resolve_replay(
    begin.config_ini(), name_of_settings(path), call.given_for_replay);
  if (config::digest(settings.all.values) != begin.config_digest())
    throw run_error(path.string() +
                    ": its settings mean something else to "
                    "this release (it was made by trainer_node " +
                    begin.troupe_version() + ")");
  if (settings.may_stop_early)
    out->tape->allow_early_stop();
  out->config = std::move(settings.all);
  out->checkpoint = find_start(begin, path, settings.resume);
  out->run_id = begin.run_id();
  out->life = incarnation{begin.life()};
  out->threads = static_cast<int>(std::max(1u, begin.threads()));
  // Workers of their own processes may have had other threads and machines.
  out->strict = can_be_exact(begin, say) && begin.alone();
  return out;
}

void require_same_run(const replay_plan& plan,
                      const parameter_server_parts& parts) {
  auto run = description_of(plan.tape->begin());
  auto all =
    config::differences(run, parts.description, config::relation::resume);
  if (!all.empty())
    throw run_error(
      "the run on the tape was another: " + config::to_string(all.front()) +
      "; name the same data with --data-dir");
}

void fetch_best(const replay_plan& plan, const fs::path& to) {
  if (auto step = plan.tape->begin().best_step(); step > 0)
    models::copy_best(plan.folder, to, step, plan.run_id);
}

} // namespace troupe::app
