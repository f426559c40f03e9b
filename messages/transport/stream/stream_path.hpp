#pragma once
// The path between two hosts: a tensor follows its frame on the socket, sent
// straight from its memory and received straight into pooled memory. Where
// sending takes long compared with computing, gradients are sent while backward
// computes them, and weights are handed out while they arrive. Owned by a link
// or gateway; threads as in path.hpp.

#include "messages/transport/stream/early_send.hpp"
#include "messages/transport/wire/path.hpp"
#include "messages/transport/wire/path_row.hpp"

namespace troupe::transport {

class stream_path : public path, private gradient_stream {
public:
  stream_path(socket line, const path_terms& terms);

  std::string_view name() const override { return "stream"; }

  gradient_stream* early_gradients() override;

protected:
  void place(frame_head& head, const payload& tensor, outgoing& out) override;

  payload expect(const frame_head& head, std::vector<descriptor>& passed,
                 incoming& follows) override;

  bool hands_out_early(const frame_head& head) const override;

  /// Memory for a tensor that arrives.
  std::shared_ptr<std::byte> take_memory() { return take_memory(arrivals_); }

  std::shared_ptr<std::byte> take_memory(payload_pool& from);

private:
  std::span<std::byte> expect_piece(const frame_head& head) override;
  void take_piece(std::optional<bool> finite) override;

  void begin(const payload& gradient) override;
  void ready(uint64_t from) override;
  void computed(double seconds) override;

  payload_pool arrivals_;
  payload_pool activations_;
  pieces_out leaving_;
  pieces_in coming_;
};

/// What the others need to know of it.
path_row stream_row();

} // namespace troupe::transport
