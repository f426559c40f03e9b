#pragma once
// Sends tensors in chunks with credit over the actor connection, which every
// peer has. Many tensors are on the way at a time, so each frame is kept until
// its tensor is whole, and may come out after a later one. Owned by an actor's
// end of the connection (actors/links/chunk_channel.cpp), which has no socket
// and asks for a tensor when its frame has been sent; not thread-safe.

#include "messages/transport/chunked/outgoing.hpp"
#include "messages/transport/wire/tensor_carrier.hpp"

#include <functional>
#include <map>

namespace troupe::transport {

class chunk_carrier final : public tensor_carrier {
public:
  /// Of a tensor that arrives.
  struct progress {
    uint64_t received = 0;      ///< Bytes so far: the credit to grant.
    std::optional<frame> whole; ///< The frame, with the last chunk.
  };

  /// @param send Sends a chunk to the other end.
  explicit chunk_carrier(std::function<void(chunk)> send)
    : send_(std::move(send)) {
    // nop
  }

  std::string_view name() const override;

  outgoing_tensor place(frame_head& head, const payload& tensor) override;

  incoming_tensor expect(const frame_head& head,
                         std::vector<descriptor>& files) override;

  void let_go(uint64_t request) override;

  /// Keeps the frame of a tensor that was expected and is not whole.
  bool intercept(frame& received) override;

  /// The other end has received so many bytes of this tensor.
  void add_credit(transfer_id id, uint64_t received);

  /// Puts a chunk in its place. Nothing when its tensor is not expected.
  std::optional<progress> accept(const chunk& piece);

private:
  struct arrival {
    frame message;
    chunk_receiver tensor;
  };

  std::function<void(chunk)> send_;
  outgoing_payloads leaving_;
  std::map<transfer_id, arrival> arriving_;
};

} // namespace troupe::transport
