#pragma once
// What an end of a link accepts from the other end, and sends to it. Plain
// values.

#include "config/text/settings.hpp"
#include "messages/transport/wire/frame.hpp"

#include <algorithm>

namespace troupe::transport {

struct path_terms {
  payload_shape expected; ///< The shape of all tensors received.
  /// How many received tensors may be in use at a time; one more breaks the
  /// path.
  size_t most_tensors = SIZE_MAX;
  /// If the tensors are parts of a larger one: the shape of that one. The other
  /// end's regions may be as large, and such tensors may be sent, too.
  payload_shape whole = {};
  /// The shape of sent tensors, where it differs: gradients may be compressed,
  /// weights are not.
  payload_shape sent = {};
  /// Tensors of that shape are sent from this byte to the end, then from 0: a
  /// receiver that reads them while they arrive needs their end first.
  uint64_t first_sent = 0;
  /// Whether tensors are sent while they are computed, and used while they
  /// arrive.
  config::overlap_rule overlap = config::overlap_rule::off;
  /// With overlap: whether arriving tensors may be used before they are
  /// complete.
  bool in_use_early = true;
  /// Whether tensors that come over the socket are searched for NaN and
  /// infinity on the way (`payload::finite`).
  bool checks_numbers = false;
  /// The most elements of activations in a frame, either way; 0: none are sent.
  uint64_t most_activations = 0;

  /// Whether fragments of the tensors may come and be sent, too: numbers of the
  /// same type, and fewer.
  bool has_fragments = false;

  /// The largest shape of activations. They have the type of the weights.
  payload_shape activations() const {
    return {expected.type, most_activations};
  }

  bool sends(frame_kind kind, const payload_shape& shape) const {
    if (has_activations(kind))
      return takes_activations(shape);
    return shape == expected || (whole.count > 0 && shape == whole) ||
           (sent.count > 0 && shape == sent) || is_fragment(shape, expected) ||
           is_fragment(shape, sent);
  }

  bool takes(frame_kind kind, const payload_shape& shape) const {
    return has_activations(kind)
             ? takes_activations(shape)
             : shape == expected || is_fragment(shape, expected);
  }

  uint64_t most_region_bytes() const {
    return std::max({expected.bytes(), whole.bytes(), activations().bytes()});
  }

private:
  bool is_fragment(const payload_shape& shape, const payload_shape& of) const {
    return has_fragments && shape.type == of.type && shape.count > 0 &&
           shape.count < of.count;
  }

  bool takes_activations(const payload_shape& shape) const {
    return shape.type == expected.type && shape.count <= most_activations;
  }
};

} // namespace troupe::transport
