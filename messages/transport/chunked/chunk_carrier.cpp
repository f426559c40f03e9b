#include "messages/transport/chunked/chunk_carrier.hpp"

#include "config/schema/paths.hpp"
#include "messages/protocol.hpp"

namespace troupe::transport {

std::string_view chunk_carrier::name() const {
  return config::actor_connection;
}

// -- out ----------------------------------------------------------------------

outgoing_tensor chunk_carrier::place(frame_head& head, const payload& tensor) {
  if (leaving_.size() == max_pushes_in_flight)
    throw path_error{
      "the other node does not receive the tensors that are sent to it"};
  leaving_.begin(head.request, tensor, send_);
  return {};
}

void chunk_carrier::add_credit(transfer_id id, uint64_t received) {
  if (!leaving_.credit(id, received, send_))
    throw path_error{"the other end has received what was not sent"};
}

void chunk_carrier::let_go(uint64_t request) {
  leaving_.forget(transfer_id{request});
}

// -- in -----------------------------------------------------------------------

incoming_tensor chunk_carrier::expect(const frame_head& head,
                                      std::vector<descriptor>&) {
  incoming_tensor out;
  if (head.shape.count == 0) // No chunk will come.
    out.tensor = payload_buffer{head.shape}.seal();
  else if (arriving_.size() == max_pushes_in_flight)
    throw path_error{"too many tensors at a time"};
  else if (!arriving_
              .emplace(head.request, arrival{{}, chunk_receiver{head.shape}})
              .second)
    throw path_error{"two tensors have the same number"};
  return out;
}

bool chunk_carrier::intercept(frame& received) {
  auto found = arriving_.find(received.request);
  if (received.tensor || found == arriving_.end())
    return false;
  found->second.message = std::move(received);
  return true;
}

std::optional<chunk_carrier::progress>
chunk_carrier::accept(const chunk& piece) {
  auto found = arriving_.find(piece.transfer);
  if (found == arriving_.end()) // Not announced, or of another shape.
    return std::nullopt;
  auto& [message, tensor] = found->second;
  if (!tensor.accept(piece))
    throw path_error{"a piece is out of place"};
  progress out{tensor.received(), std::nullopt};
  if (tensor.complete()) {
    message.tensor = std::move(tensor).take_payload();
    out.whole = std::move(message);
    arriving_.erase(found);
  }
  return out;
}

} // namespace troupe::transport
