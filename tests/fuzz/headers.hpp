#pragma once
// Which header the frames of a kind have, as links, gateways and casts read it.

#include "messages/transport/cast_frames.hpp"
#include "messages/transport/frame.hpp"

namespace troupe::fuzz {

/// Calls `read` with an empty header of the kind's type. False for a kind that
/// has none.
template <class Read>
bool with_header_of(transport::frame_kind kind, Read read) {
  using transport::frame_kind;
  switch (kind) {
  case frame_kind::push:
  case frame_kind::offer:
    read(push_header{});
    return true;
  case frame_kind::pull:
    read(pull_header{});
    return true;
  case frame_kind::watch:
    read(version{});
    return true;
  case frame_kind::score:
    read(score{});
    return true;
  case frame_kind::release:
    read(release_header{});
    return true;
  case frame_kind::due:
    read(watch_header{});
    return true;
  case frame_kind::refusal:
    read(transport::refusal{});
    return true;
  case frame_kind::meet:
    read(transport::cast_attendance{});
    return true;
  case frame_kind::cast_call:
    read(transport::cast_call{});
    return true;
  case frame_kind::cast_answer:
    read(transport::cast_answer{});
    return true;
  case frame_kind::cast_open:
    read(transport::cast_open{});
    return true;
  case frame_kind::cast_over:
    read(transport::cast_over{});
    return true;
  case frame_kind::give:
    read(transport::cast_give{});
    return true;
  default:
    return false;
  }
}

} // namespace troupe::fuzz
