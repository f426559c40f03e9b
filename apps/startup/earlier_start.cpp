#include "apps/startup/earlier_start.hpp"

#include "apps/startup/next_life.hpp"
#include "config/run_folder/train_dir.hpp"
#include "config/text/failure.hpp"
#include "messages/run_record.hpp"
#include "models/storage/best_weights.hpp"
#include "models/storage/durable_file.hpp"

#include <optional>

namespace troupe::app {

namespace {

namespace fs = std::filesystem;

/// An upper limit for the size of a configuration that Troupe wrote.
constexpr uint64_t longest_ini = 1 << 20;

config::earlier_run run_of(const fs::path& at,
                           const proto::Manifest& manifest) {
  auto above = fs::absolute(at).lexically_normal().parent_path();
  return {at.string(), manifest.config_ini(), true, above.parent_path(),
          description_of(manifest).changes};
}

/// A run that left no checkpoint is started again, with the settings in its
/// config.ini.
std::optional<config::earlier_run> run_without_weights(const fs::path& folder) {
  auto path = folder / "config.ini";
  std::error_code error;
  if (folder.empty() || !fs::exists(path, error))
    return std::nullopt;
  auto file = models::read_file(path, longest_ini);
  auto bytes = file.span();
  return config::earlier_run{
    path.string(),
    {reinterpret_cast<const char*>(bytes.data()), bytes.size()},
    false,
    folder};
}

/// The checkpoint of the best score. Throws `run_error` when it is not there.
fs::path best_checkpoint(const fs::path& run) {
  auto step = models::read_best_score(run).step;
  auto out = run / "checkpoints" / models::checkpoint_name(step);
  std::error_code error;
  if (!fs::exists(out, error))
    throw run_error(run.string() + ": the best weights are of step " +
                    std::to_string(step) +
                    ", and there is no checkpoint of it; --keep-best full "
                    "keeps one");
  return out;
}

/// Finds the run without reading its weights, which take time to verify.
std::optional<config::earlier_run> glance(const config::settings& settings,
                                          const fs::path& folder) {
  const auto& resume = *settings.training.resume;
  auto place = folder / "checkpoints";
  if (resume == "best")
    place = best_checkpoint(folder);
  else if (resume != "auto")
    place = resume;
  std::error_code error;
  if (fs::exists(place / "manifest.pb", error))
    return run_of(place, models::read_manifest(place));
  if (auto inner = place / "checkpoints"; fs::is_directory(inner, error))
    place = inner;
  auto all = models::list_checkpoints(place);
  if (all.empty())
    return run_without_weights(folder);
  return run_of(all.back().path, models::read_manifest(all.back().path));
}

} // namespace

std::shared_ptr<const models::loaded_checkpoint>
find_checkpoint(const config::settings& settings, const fs::path& folder,
                const models::line_sink& say) {
  const auto& resume = settings.training.resume;
  if (!resume)
    return nullptr;
  if (*resume == "best")
    return std::make_shared<const models::loaded_checkpoint>(
      models::read_checkpoint(best_checkpoint(folder)));
  auto checkpoints = folder / "checkpoints";
  auto found = *resume == "auto" ? models::newest_valid(checkpoints, say)
                                 : models::find_checkpoint(*resume, say);
  if (!found && !models::list_checkpoints(checkpoints).empty())
    throw run_error("no usable checkpoint in " + checkpoints.string() +
                    "; --overwrite begins anew");
  if (!found)
    return nullptr;
  return std::make_shared<const models::loaded_checkpoint>(std::move(*found));
}

config::run_finder make_run_finder(earlier_start& found,
                                   const models::line_sink& say) {
  return [&found, say](const config::settings& settings,
                       bool starts) -> std::optional<config::earlier_run> {
    const auto& training = settings.training;
    fs::path folder = training.train_dir;
    std::error_code error;
    auto elsewhere = *training.resume != "auto" && *training.resume != "best";
    // Opening the run directory later reports that there is no such path.
    if ((elsewhere && !fs::exists(*training.resume, error)) ||
        (!elsewhere && folder.empty()) || training.overwrite)
      return std::nullopt;
    config::require_resumable(training);
    if (!starts)
      return glance(settings, folder);
    if (!folder.empty() && config::holds_run(folder)) {
      found.lock = lock_run(folder);
      models::remove_leftovers(folder / "checkpoints");
    }
    found.checkpoint = find_checkpoint(settings, folder, say);
    if (found.checkpoint)
      return run_of(found.checkpoint->path, found.checkpoint->manifest);
    return run_without_weights(folder);
  };
}

} // namespace troupe::app
