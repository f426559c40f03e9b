#include "actors/checkpoint_writer.hpp"

#include "actors/snapshot.hpp"
#include "models/checkpoint.hpp"

#include <exception>
#include <utility>

namespace troupe {

namespace {

/// The parts of a flat payload as named tensors: views, no copies.
template <class KeyOf>
void add_tensors(const models::flat_layout& layout, const payload& flat,
                 KeyOf key_of, std::vector<models::named_tensor>& out) {
  auto width = size_of(flat.shape().type);
  auto dtype = flat.shape().type == element_type::float64 ? "F64" : "F32";
  for (const auto& part : layout.slots())
    out.push_back(
      {key_of(part.name), dtype, part.shape,
       flat.bytes().subspan(part.offset * width, part.count * width)});
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
  std::vector<models::named_tensor> weights;
  if (what->layout)
    add_tensors(*what->layout, what->weights, std::identity{}, weights);
  std::vector<models::named_tensor> slots;
  for (const auto& slot : what->slots)
    add_tensors(
      *what->layout, slot.flat,
      [&](const std::string& parameter) {
        return models::slot_key(slot.name, parameter);
      },
      slots);
  auto path =
    models::write_checkpoint(parts_.folder, what->manifest, weights, slots);
  models::prune(parts_.folder, parts_.keep);
  return path.filename().string();
} catch (const std::exception& err) {
  return caf::make_error(errc::disk, std::string{err.what()});
}

} // namespace troupe
