#include "messages/transport/stream_path.hpp"

#include <utility>

namespace troupe::transport {

stream_path::stream_path(socket line, const path_terms& terms)
  : path(std::move(line), terms), arrivals_(terms.expected.bytes()) {
  // nop
}

void stream_path::place(frame_head& head, const payload& tensor,
                        outgoing& out) {
  head.carried = carriage::follows;
  out.tensor = tensor;
}

payload stream_path::expect(const frame_head& head, std::vector<descriptor>&,
                            std::span<std::byte>& follows) {
  if (head.carried != carriage::follows)
    throw path_error{"a tensor in memory that this path does not share"};
  if (arrivals_.stats().in_use >= terms().most_tensors)
    throw path_error{"too many tensors at a time"};
  auto memory = arrivals_.take();
  auto* data = memory.get();
  follows = {data, static_cast<size_t>(head.shape.bytes())};
  return {head.shape, std::move(memory), data};
}

} // namespace troupe::transport
