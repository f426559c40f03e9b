#pragma once
// Which header the frames of each kind have, as links, gateways and collective
// paths read it.

#include "messages/transport/nccl/collective_frames.hpp"
#include "messages/transport/wire/frame.hpp"

namespace troupe::fuzz {

/// Calls `read` with an empty header of the kind's type. Returns false for a
/// kind without a header.
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
    read(watch_request{});
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
    read(transport::collective_attendance{});
    return true;
  case frame_kind::collective_call:
    read(transport::collective_call{});
    return true;
  case frame_kind::collective_answer:
    read(transport::collective_answer{});
    return true;
  case frame_kind::collective_open:
    read(transport::collective_open{});
    return true;
  case frame_kind::collective_over:
    read(transport::collective_over{});
    return true;
  case frame_kind::forward:
  case frame_kind::backward:
    read(transport::pass_header{});
    return true;
  case frame_kind::passed:
    read(transport::passed_header{});
    return true;
  case frame_kind::cancel:
    read(lease_id{});
    return true;
  case frame_kind::read:
    read(context_part{});
    return true;
  case frame_kind::give:
    read(transport::collective_give{});
    return true;
  default:
    return false;
  }
}

} // namespace troupe::fuzz
