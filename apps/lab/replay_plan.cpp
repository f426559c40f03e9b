#include "apps/lab/replay_plan.hpp"

#include "apps/startup/event_log.hpp"
#include "config/patterns/placement.hpp"
#include "config/runs/replay_settings.hpp"
#include "config/runs/shared_settings.hpp"
#include "config/text/failure.hpp"
#include "config/text/version.hpp"
#include "messages/run_record.hpp"
#include "models/storage/best_weights.hpp"
#include "models/storage/checkpoint.hpp"

#include <cstdio>
#include <utility>

namespace troupe::app {

namespace {

namespace fs = std::filesystem;

/// The places where the checkpoint that an event log starts from may be.
std::vector<fs::path> places_of(const std::string& name,
                                const fs::path& event_log,
                                const std::optional<std::string>& resume) {
  std::vector<fs::path> out;
  auto add_folder = [&](const fs::path& folder) {
    out.push_back(folder / name);
    out.push_back(folder / ("abandoned-" + name));
  };
  if (!resume || *resume == "auto") {
    add_folder(event_log.parent_path() / "checkpoints");
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

/// A replay of the earlier life makes the same checkpoint, with other times in
/// its manifest: only the tensors must agree.
void require_start(const models::loaded_checkpoint& found,
                   const proto::LogBegin& begin, const fs::path& event_log) {
  const auto& manifest = found.manifest;
  if (manifest.step() != begin.start_version() ||
      sum_of(manifest, "model.safetensors") != begin.model_sha256() ||
      sum_of(manifest, "optimizer.safetensors") != begin.optimizer_sha256())
    throw run_error(found.path.string() + ": is not the checkpoint that " +
                    event_log.string() + " begins from (step " +
                    std::to_string(begin.start_version()) +
                    ", other weights); name that with --resume PATH");
}

std::shared_ptr<const models::loaded_checkpoint>
find_start(const proto::LogBegin& begin, const fs::path& event_log,
           const std::optional<std::string>& resume) {
  if (begin.checkpoint().empty()) {
    if (resume)
      throw usage_error("--resume " + *resume + ": " + event_log.string() +
                        " begins from no checkpoint; leave it out");
    return nullptr;
  }
  auto places = places_of(begin.checkpoint(), event_log, resume);
  for (const auto& place : places) {
    if (!fs::exists(place / "manifest.pb"))
      continue;
    auto found = models::read_checkpoint(place);
    require_start(found, begin, event_log);
    return std::make_shared<const models::loaded_checkpoint>(std::move(found));
  }
  throw run_error(
    event_log.string() + ": life " + std::to_string(begin.life()) +
    " of the server began from the checkpoint " + begin.checkpoint() +
    ", which is not at " + places.front().string() +
    "; name its place with --resume PATH, or make it again: "
    "--replay of the event log before with --max-steps " +
    std::to_string(begin.start_version()));
}

/// What of the run was computed on a GPU, as far as is known when it begins;
/// empty: nothing.
std::string gpu_of_run(const proto::LogBegin& begin,
                       const config::settings& settings) {
  if (!begin.device().empty())
    return "its server computed on " + begin.device();
  for (const auto& rule : config::parse_placement(settings.training.placement))
    if (!rule.device.empty() && rule.device != "cpu")
      return "parts of its network were computed on " + rule.device;
  return {};
}

/// Whether gradients can be bit-equal to those of the run; if not, says why.
/// @param on_gpu From gpu_of_run.
bool can_be_exact(const proto::LogBegin& begin, const std::string& on_gpu,
                  const std::function<void(const std::string&)>& say) {
  std::string why;
  if (begin.threads() != 1)
    why = "its workers used " + std::to_string(begin.threads()) +
          " intra-op threads (record with --threads 1)";
  else if (begin.cpu() != cpu_capability())
    why = "it used the CPU's " + begin.cpu() + ", this machine has " +
          cpu_capability();
  else if (!on_gpu.empty())
    why = on_gpu + ", a replay does on the CPU";
  else if (begin.troupe_version() != config::version())
    why = "it was made by trainer_node " + begin.troupe_version();
  if (!why.empty())
    say("replay       the weights may differ from the run's in their last "
        "bits: " +
        why);
  return why.empty();
}

std::string name_of_settings(const fs::path& event_log) {
  return event_log.string() + " (settings)";
}

} // namespace

std::shared_ptr<const replay_plan>
plan_replay(const config::invocation& call,
            const std::function<void(const std::string&)>& say) {
  const fs::path path = call.tape;
  auto out = std::make_shared<replay_plan>();
  out->event_log = std::make_shared<replay::recorded_run>(path);
  out->folder = fs::absolute(path).parent_path();
  const auto& begin = out->event_log->begin();
  auto settings = config::resolve_replay(
    begin.config_ini(), name_of_settings(path), call.given_for_replay);
  if (config::digest(settings.all.values) != begin.config_digest())
    throw run_error(path.string() +
                    ": its settings mean something else to "
                    "this release (it was made by trainer_node " +
                    begin.troupe_version() + ")");
  if (settings.may_stop_early)
    out->event_log->allow_early_stop();
  out->config = std::move(settings.all);
  if (out->config.values.training.autocast == config::autocast_kind::fp16)
    throw run_error(path.string() +
                    ": its workers computed in fp16 on GPUs, which a replay on "
                    "the CPU cannot repeat");
  // Devices belong to the nodes of the run; a replay computes on the CPU.
  out->config.values.training.device = "cpu";
  auto on_gpu = gpu_of_run(begin, out->config.values);
  if (!on_gpu.empty())
    out->event_log->allow_other_weights();
  out->checkpoint = find_start(begin, path, settings.resume);
  out->run_id = begin.run_id();
  out->life = life_number{begin.life()};
  out->rules = std::max(policies::first_rules, begin.rules());
  if (out->rules > policies::newest_rules)
    throw run_error(path.string() +
                    ": its run decided by rules that this "
                    "release does not have: replay it with trainer_node " +
                    begin.troupe_version());
  out->threads = static_cast<int>(std::max(1u, begin.threads()));
  // Workers in processes of their own may have had other numbers of threads and
  // other machines.
  out->strict = can_be_exact(begin, on_gpu, say) && begin.alone();
  return out;
}

origin origin_of(const replay_plan& plan) {
  origin out;
  out.directory = config::open_run_directory(plan.config.values.training);
  out.checkpoint = plan.checkpoint;
  out.run_id = plan.run_id;
  out.life = plan.life;
  out.rules = plan.rules;
  out.changes = description_of(plan.event_log->begin()).changes;
  return out;
}

void require_same_run(const replay_plan& plan,
                      const parameter_server_parts& parts) {
  auto run = description_of(plan.event_log->begin());
  auto all =
    config::differences(run, parts.description, config::relation::resume);
  if (!all.empty())
    throw run_error("the run in the event log was another: " +
                    config::to_string(all.front()) +
                    "; name the same data with --data-dir, and the same file "
                    "of first weights with --init");
}

void fetch_best(const replay_plan& plan, const fs::path& to) {
  if (auto step = plan.event_log->begin().best_step(); step > 0)
    models::copy_best(plan.folder, to, step, plan.run_id);
}

} // namespace troupe::app
