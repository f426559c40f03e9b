#pragma once
// What carries frames between the two ends of a link: a tensor path
// (path_channel.hpp) or the actor connection (chunk_channel.hpp). It knows
// nothing of what frames mean.
//
// A member of the state of a framed link or framed gateway; closes when it is
// destroyed. Not thread-safe.

#include "messages/interfaces.hpp"
#include "messages/transport/wire/frame.hpp"

#include <memory>
#include <string>
#include <utility>

namespace troupe {

class frame_channel {
public:
  virtual ~frame_channel() = default;

  /// To be called once, before anything is sent. From now on `owner` is told of
  /// each frame that arrives.
  virtual void open(caf::actor_system& system, const path_end_actor& owner) = 0;

  /// Never blocks. Frames that carry tensors may arrive after later ones.
  virtual void send(transport::frame message) = 0;

  template <class Header>
  void send(transport::frame_kind kind, transfer_id id, const Header& header,
            payload tensor = {}) {
    send({kind, id, transport::write_header(header), std::move(tensor)});
  }

  /// Tells the other end which of its tensors are released here.
  virtual void send_let_gos() {
    // nop
  }

  /// Closes both ends. The owner is told, with the reason.
  virtual void close(const std::string& why) = 0;
};

using frame_channel_ptr = std::shared_ptr<frame_channel>;

} // namespace troupe
