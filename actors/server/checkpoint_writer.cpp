#include "actors/server/checkpoint_writer.hpp"

#include "actors/weights/snapshot.hpp"
#include "config/text/failure.hpp"
#include "config/text/one_line.hpp"
#include "models/storage/best_weights.hpp"
#include "models/storage/checkpoint.hpp"

#include <exception>
#include <functional>
#include <span>
#include <utility>

namespace troupe {

namespace {

/// Weights that are not finite never recover: a checkpoint of them would
/// displace the last usable one.
void require_finite(const snapshot& what) {
  auto step = what.best ? what.best->weights.value : what.manifest.step();
  if (auto name = not_finite_in(what))
    throw run_error("the training has diverged: at step " +
                    std::to_string(step) + " " + *name +
                    " has numbers that are not finite; nothing was saved, go "
                    "on from an older checkpoint with a smaller --lr");
}

std::filesystem::path write_files(const std::filesystem::path& folder,
                                  const snapshot& what,
                                  const std::function<void()>& permit) {
  if (what.drafts)
    return models::write_checkpoint(folder, what.manifest, *what.drafts,
                                    permit);
  auto batches = static_cast<int64_t>(what.manifest.step());
  return models::write_checkpoint(folder, what.manifest,
                                  state_dict_of(what, batches, false),
                                  slots_of(what), other_names_of(what), permit);
}

} // namespace

checkpoint_writer_state::checkpoint_writer_state(pointer,
                                                 checkpoint_writer_parts parts)
  : parts_(std::move(parts)) {
  // nop
}

checkpoint_writer_actor::behavior_type
checkpoint_writer_state::make_behavior() {
  return {[this](write_atom, const snapshot_ptr& what) {
    return write(what);
  }};
}

caf::result<std::string>
checkpoint_writer_state::write(const snapshot_ptr& what) try {
  require_finite(*what);
  require_claim();
  if (what->best)
    return write_best(*what);
  auto path = write_files(parts_.folder, *what, [this] { require_claim(); });
  require_claim();
  models::prune(parts_.folder, parts_.keep, what->stays);
  return path.filename().string();
} catch (const std::exception& err) {
  return caf::make_error(errc::disk, one_line(err));
}

void checkpoint_writer_state::require_claim() const {
  if (parts_.claim)
    parts_.claim->require();
}

std::string checkpoint_writer_state::write_best(const snapshot& what) const {
  const auto& found = *what.best;
  models::best_score score{found.weights.value, found.metrics};
  auto batches = static_cast<int64_t>(score.step);
  models::write_best(parts_.folder.parent_path(), score, what.manifest.run_id(),
                     state_dict_of(what, batches, true));
  return models::best_weights_file;
}

} // namespace troupe
