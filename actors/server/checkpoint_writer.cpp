#include "actors/server/checkpoint_writer.hpp"

#include "actors/weights/snapshot.hpp"
#include "config/text/failure.hpp"
#include "config/text/one_line.hpp"
#include "models/storage/best_weights.hpp"
#include "models/storage/checkpoint.hpp"
#include "models/storage/durable_file.hpp"

#include <exception>
#include <functional>
#include <span>
#include <utility>

namespace troupe {

namespace {

/// Weights that are not finite never recover: a checkpoint of them would
/// displace the last usable one.
void require_finite(const snapshot& state) {
  auto step = state.best ? state.best->weights.value : state.manifest.step();
  if (auto name = not_finite_in(state))
    throw run_error("the training has diverged: at step " +
                    std::to_string(step) + " " + *name +
                    " has numbers that are not finite; nothing was saved, go "
                    "on from an older checkpoint with a smaller --lr");
}

std::filesystem::path write_files(const std::filesystem::path& folder,
                                  const snapshot& state,
                                  const std::function<void()>& permit) {
  if (state.drafts)
    return models::write_checkpoint(folder, state.manifest, *state.drafts,
                                    permit);
  auto batches = static_cast<int64_t>(state.manifest.step());
  auto weights = state_dict_of(state, batches, false);
  auto slots = slots_of(state);
  return models::write_checkpoint(
    folder, state.manifest, {weights, slots, other_names_of(state)}, permit);
}

} // namespace

checkpoint_writer_state::checkpoint_writer_state(pointer,
                                                 checkpoint_writer_parts parts)
  : parts_(std::move(parts)) {
  // nop
}

checkpoint_writer_actor::behavior_type
checkpoint_writer_state::make_behavior() {
  return {[this](write_atom, const snapshot_ptr& state) {
    return write(state);
  }};
}

caf::result<std::string>
checkpoint_writer_state::write(const snapshot_ptr& state) try {
  require_finite(*state);
  require_claim();
  if (state->settings)
    return write_settings(*state);
  if (state->best)
    return write_best(*state);
  auto path = write_files(parts_.folder, *state, [this] { require_claim(); });
  require_claim();
  models::prune(parts_.folder, parts_.keep, state->stays);
  return path.filename().string();
} catch (const std::exception& err) {
  return caf::make_error(errc::disk, one_line(err));
}

void checkpoint_writer_state::require_claim() const {
  if (parts_.claim)
    parts_.claim->require();
}

std::string checkpoint_writer_state::write_best(const snapshot& state) const {
  const auto& found = *state.best;
  models::best_score score{found.weights.value, found.metrics};
  auto batches = static_cast<int64_t>(score.step);
  models::write_best(parts_.folder.parent_path(), score,
                     state.manifest.run_id(),
                     state_dict_of(state, batches, true));
  return models::best_weights_file;
}

// The next life may begin from the newest checkpoint.
std::string
checkpoint_writer_state::write_settings(const snapshot& state) const {
  constexpr const char* file = "config.ini";
  models::replace_file(parts_.folder.parent_path() / file, *state.settings);
  auto all = models::list_checkpoints(parts_.folder);
  if (all.empty())
    return file;
  auto manifest = models::read_manifest(all.back().path);
  manifest.set_config_ini(state.manifest.config_ini());
  manifest.set_config_digest(state.manifest.config_digest());
  *manifest.mutable_description() = state.manifest.description();
  *manifest.mutable_policy() = state.manifest.policy();
  models::replace_manifest(all.back().path, std::move(manifest));
  return file;
}

} // namespace troupe
