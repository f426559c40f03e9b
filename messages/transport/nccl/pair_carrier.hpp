#pragma once
// From GPU to GPU: frames and headers use the socket, numbers use NCCL, on two
// communicators of two ranks, one for each direction. Before both are ready,
// and for types that NCCL does not have, tensors use the socket too. When NCCL
// fails, the path ends. Owned by its path; threads as in tensor_carrier.hpp.
//
// At both ends tensors lie in host memory, so each is copied to the device of
// the sender and from that of the receiver.

#include "messages/transport/nccl/transfer_set.hpp"
#include "messages/transport/stream/stream_carrier.hpp"

namespace troupe::transport {

class pair_carrier final : public tensor_carrier {
public:
  pair_carrier(frame_line& line, const path_terms& terms, nccl_terms with);

  std::string_view name() const override { return "nccl"; }

  outgoing_tensor place(frame_head& head, const payload& tensor) override;

  incoming_tensor expect(const frame_head& head,
                         std::vector<descriptor>& files) override;

  bool intercept(frame& received) override;

  bool needs_polling() const override { return true; }

  std::optional<double> poll(double now) override;

  /// Whether tensors of this shape would be sent over NCCL now.
  bool is_open(const payload_shape& shape) const;

private:
  /// The ids of the two communicators.
  struct ids {
    nccl::id_bytes gradients{}, weights{};
  };

  void answer_call();
  void meet(const ids& met);
  void begin_transfers(double now);
  nccl_transfer_ptr find_transfer(bool leaves) const;
  bool poll_transfers(double now);

  frame_line& line_;
  stream_carrier stream_;
  const bool asks_;
  mutable std::mutex mutex_;
  std::optional<ids> called_; ///< Communicators not yet begun.
  nccl_transfer_ptr leaving_, coming_;
  transfer_set transfers_;
};

} // namespace troupe::transport
