#pragma once
// Carries the frames of a link over a tensor path, with two helper actors: a
// reader, and a writer for what would block.

#include "actors/links/frame_channel.hpp"
#include "messages/transport/wire/path.hpp"

namespace troupe {

/// One end of a link over this path.
frame_channel_ptr make_path_channel(transport::path_ptr way);

} // namespace troupe
