#pragma once
// Between two hosts: a tensor follows its frame on the socket, sent straight
// from its memory and received straight into pooled memory. Where sending takes
// long compared with computing, gradients are sent while backward computes
// them, and weights are handed out while they arrive. Owned by its path, or by
// a carrier over NCCL for tensors that NCCL cannot send; threads as in
// tensor_carrier.hpp.

#include "messages/payload_memory.hpp"
#include "messages/transport/stream/early_send.hpp"
#include "messages/transport/wire/path_row.hpp"

namespace troupe::transport {

class stream_carrier final : public tensor_carrier, private gradient_stream {
public:
  stream_carrier(frame_line& line, const path_terms& terms);

  std::string_view name() const override { return "stream"; }

  outgoing_tensor place(frame_head& head, const payload& tensor) override;

  incoming_tensor expect(const frame_head& head,
                         std::vector<descriptor>& files) override;

  bool intercept(frame& received) override;

  gradient_stream* early_gradients() override;

  /// Memory for a tensor that arrives, this way or another.
  memory_block take_memory() { return take_memory(arrivals_); }

private:
  memory_block take_memory(payload_pool& pool);

  void begin(const payload& gradient) override;
  void ready(uint64_t from) override;
  void computed(double seconds) override;

  frame_line& line_;
  path_terms terms_;
  payload_pool arrivals_;
  payload_pool activations_;
  pieces_out leaving_;
  pieces_in coming_;
};

/// The row of this kind of path (path_row.hpp).
path_row stream_row();

} // namespace troupe::transport
