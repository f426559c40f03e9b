#include "actors/state/checkpoint_writer.hpp"

#include "actors/state/snapshot.hpp"
#include "config/text/failure.hpp"
#include "config/text/one_line.hpp"
#include "models/storage/best_weights.hpp"
#include "models/storage/checkpoint.hpp"

#include <exception>
#include <span>
#include <utility>

namespace troupe {

namespace {

/// A tensor that has another name already.
bool is_shared(const models::parameter_slot& part) {
  return part.kind != models::tensor_kind::counter && !part.same_as.empty();
}

/// The state dict. A version has seen as many batches as its number says, and
/// a frozen layer none.
std::vector<models::named_tensor>
state_dict_of(const snapshot& what, const int64_t& batches, bool all_names) {
  static constexpr int64_t none = 0;
  std::vector<models::named_tensor> out;
  if (!what.layout)
    return out;
  for (const auto& part : what.layout->state_dict())
    if (!all_names && is_shared(part))
      continue;
    else if (part.kind == models::tensor_kind::counter)
      out.push_back(
        {part.name, "I64", part.shape,
         std::as_bytes(std::span{part.frozen ? &none : &batches, 1})});
    else
      out.push_back(
        tensor_of(part, part.frozen ? what.frozen : what.weights, part.name));
  return out;
}

models::tensor_metadata other_names_of(const snapshot& what) {
  models::tensor_metadata out;
  if (what.layout)
    for (const auto& part : what.layout->state_dict())
      if (is_shared(part))
        out.emplace(part.name, part.same_as);
  return out;
}

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
  if (what->best)
    return write_best(*what);
  auto batches = static_cast<int64_t>(what->manifest.step());
  auto weights = state_dict_of(*what, batches, false);
  auto names = other_names_of(*what);
  auto path = what->draft
                ? models::write_checkpoint(parts_.folder, what->manifest,
                                           weights, *what->draft, names)
                : models::write_checkpoint(parts_.folder, what->manifest,
                                           weights, slots_of(*what), names);
  models::prune(parts_.folder, parts_.keep, what->stays);
  return path.filename().string();
} catch (const std::exception& err) {
  return caf::make_error(errc::disk, one_line(err));
}

std::string checkpoint_writer_state::write_best(const snapshot& what) const {
  const auto& found = *what.best;
  models::best_score score{found.weights.value, found.accuracy, found.loss};
  auto batches = static_cast<int64_t>(score.step);
  models::write_best(parts_.folder.parent_path(), score, what.manifest.run_id(),
                     state_dict_of(what, batches, true));
  return models::best_weights_file;
}

} // namespace troupe
