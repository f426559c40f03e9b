#pragma once
// What both halves of a framed link have: one end of a path, and the two actors
// that wait on it.
//
// A member of the state of a framed link or framed gateway; closes the path
// when it is destroyed. Not thread-safe.

#include "messages/interfaces.hpp"
#include "messages/transport/wire/path.hpp"

namespace troupe {

class path_half {
public:
  explicit path_half(transport::path_ptr way);

  ~path_half();

  path_half(const path_half&) = delete;
  path_half& operator=(const path_half&) = delete;

  /// From now on `owner` is told of each frame that arrives.
  void open(caf::actor_system& system, const path_end_actor& owner);

  template <class Header>
  void send(transport::frame_kind kind, transfer_id id, const Header& header,
            const payload& tensor = {}) {
    call_writer(way_->send(kind, id, transport::write_header(header), tensor));
  }

  void send_let_gos() { call_writer(way_->send_let_gos()); }

  void close(const std::string& why) { way_->close(why); }

  std::string name() const { return std::string{way_->name()}; }

private:
  void call_writer(bool waits);

  transport::path_ptr way_;
  path_writer_actor writer_;
  path_poller_actor poller_; ///< Null unless the path must be polled.
};

} // namespace troupe
