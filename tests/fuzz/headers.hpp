#pragma once
// Which header the frames of each kind have, as links and gateways read it.

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
  case frame_kind::gathered:
    read(release_header{});
    return true;
  case frame_kind::due:
    read(watch_header{});
    return true;
  case frame_kind::refusal:
    read(transport::refusal{});
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
  default:
    return false;
  }
}

} // namespace troupe::fuzz
