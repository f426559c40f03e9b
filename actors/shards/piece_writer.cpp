#include "actors/shards/piece_writer.hpp"

#include "actors/shards/file_places.hpp"
#include "config/text/failure.hpp"
#include "config/text/one_line.hpp"
#include "messages/error.hpp"
#include "models/storage/tensor_draft.hpp"

#include <exception>
#include <optional>
#include <span>
#include <utility>

namespace troupe {

namespace {

/// The pieces of the two files, written but not durable. Throws `run_error`
/// where these files are not, or cannot be written to.
struct written_pieces {
  explicit written_pieces(const piece_of_state& piece)
    : weights(piece.places.weights.file), slots(piece.places.slots.file) {
    auto width = size_of(piece.numbers.shape().type);
    const auto& parts = piece.places.slots.parts;
    auto bytes = piece.numbers.host_bytes();
    auto each = bytes.size() / (parts.size() + 1);
    if (each * (parts.size() + 1) != bytes.size() || each % width != 0)
      throw run_error("not the slots of this optimiser");
    auto first = piece.first * width;
    put_range(weights, piece.places.weights.parts, width, first,
              bytes.first(each));
    for (size_t i = 0; i < parts.size(); ++i)
      put_range(slots, std::span{parts}.subspan(i, 1), width, first,
                bytes.subspan(each * (i + 1), each));
  }

  models::draft_piece weights;
  models::draft_piece slots;
};

} // namespace

piece_writer_state::piece_writer_state(pointer self, piece_of_state piece)
  : self_(self), what_(std::move(piece)) {
  // nop
}

piece_writer_actor::behavior_type piece_writer_state::make_behavior() {
  return {[this](write_atom) {
    return write();
  }};
}

caf::result<bool> piece_writer_state::write() try {
  self_->quit();
  auto what = std::exchange(what_, {});
  what.numbers.host_bytes(); // A GPU that has failed is no missing file.
  std::optional<written_pieces> pieces;
  try {
    pieces.emplace(what);
  } catch (const run_error&) {
    return false;
  }
  pieces->weights.sync();
  pieces->slots.sync();
  return true;
} catch (const std::exception& err) {
  return caf::make_error(errc::disk, one_line(err));
}

} // namespace troupe
