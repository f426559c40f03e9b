#pragma once
// Carries the frames of a link over the actor connection: kinds and headers as
// messages, tensors in chunks with credit. A helper actor at each end talks to
// that of the other end.

#include "actors/links/frame_channel.hpp"

namespace troupe {

/// The end of a worker or an evaluator, which receives tensors of this shape
/// only. The gateway makes the other end.
/// @param activations The largest shape of activations; empty: there are none.
/// @param has_fragments As in path_terms.
frame_channel_ptr make_chunk_channel(payload_shape expected,
                                     gateway_actor gateway,
                                     payload_shape activations = {},
                                     bool has_fragments = false);

/// The end of the server. Frames with tensors of other shapes arrive without
/// their bytes.
frame_channel_ptr make_chunk_channel(payload_shape expected,
                                     chunk_end_actor peer,
                                     payload_shape activations = {},
                                     bool has_fragments = false);

} // namespace troupe
