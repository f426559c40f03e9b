#pragma once
// Fetches weights from a gateway: those that a run does not train, before the
// worker or evaluator that needs them is made; or those that the run ends with.
// They come over the actor connection, whichever path the tensors of a step
// take, since they come only once.
//
// An actor; one for each transfer, which ends with it. Its interface:
// messages/interfaces.hpp.

#include "actors/runtime/spawning.hpp"
#include "actors/session/handshake.hpp"
#include "messages/interfaces.hpp"
#include "messages/transport/chunked/chunked.hpp"

#include <optional>

namespace troupe {

class download_state {
public:
  using pointer = download_actor::stateful_pointer<download_state>;

  static constexpr const char* name = "troupe.download";

  /// @param patience s without a chunk until the server counts as lost.
  download_state(pointer self, double patience);

  download_actor::behavior_type make_behavior();

private:
  caf::result<payload> fetch(const gateway_actor& from,
                             const payload_shape& shape);
  void add_piece(const chunk& piece);
  void watch();
  void fail(errc why, const std::string& text);

  pointer self_;
  double patience_;
  gateway_actor from_;
  std::optional<transport::chunk_receiver> arriving_;
  uint64_t before_ = 0; ///< Bytes at the last tick.
  caf::typed_response_promise<payload> asks_;
};

/// Spawns a download, and asks it for the weights of this shape.
template <class Self>
auto request_weights(Self* self, const gateway_actor& from,
                     const payload_shape& shape) {
  auto by = spawn<download_actor, download_state>(
    self->system(), placement::scheduled, patience_with_a_peer);
  return self->request(by, caf::infinite, fetch_atom_v, from, shape);
}

} // namespace troupe
