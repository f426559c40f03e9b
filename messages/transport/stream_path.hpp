#pragma once
// Between hosts: tensors follow their frames on the socket, straight from the
// sender's tensor and straight into memory that is used again.

#include "messages/transport/path.hpp"

namespace troupe::transport {

class stream_path final : public path {
public:
  stream_path(socket line, const path_terms& terms);

  std::string_view name() const override { return "stream"; }

private:
  void place(frame_head& head, const payload& tensor, outgoing& out) override;

  payload expect(const frame_head& head, std::vector<descriptor>& passed,
                 std::span<std::byte>& follows) override;

  payload_pool arrivals_;
};

} // namespace troupe::transport
