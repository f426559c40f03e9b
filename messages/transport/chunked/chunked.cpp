#include "messages/transport/chunked/chunked.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace troupe::transport {

chunk_sender::chunk_sender(transfer_id id, payload source, uint64_t chunk_bytes,
                           uint64_t window_bytes)
  : id_(id), source_(std::move(source)),
    chunk_bytes_(std::min(chunk_bytes, window_bytes)),
    window_bytes_(window_bytes) {
  // nop
}

std::optional<chunk> chunk_sender::next() {
  auto total = source_.shape().bytes();
  auto open = window_bytes_ - std::min(window_bytes_, sent_ - acknowledged_);
  auto size = std::min({chunk_bytes_, total - sent_, open});
  // A chunk cut short only by the window would just cost another message.
  if (size == 0 || (size < chunk_bytes_ && sent_ + size < total))
    return std::nullopt;
  chunk piece;
  piece.transfer = id_;
  piece.offset = sent_;
  piece.source = source_;
  piece.size = size;
  sent_ += size;
  return piece;
}

bool chunk_sender::credit(uint64_t received) {
  if (received > sent_ || received < acknowledged_)
    return false;
  acknowledged_ = received;
  return true;
}

chunk_receiver::chunk_receiver(payload_shape shape) : buffer_(shape) {
  // nop
}

bool chunk_receiver::accept(const chunk& piece) {
  auto bytes = piece.bytes();
  auto target = buffer_.bytes();
  if (piece.offset != received_ || bytes.size() > target.size() - received_ ||
      bytes.empty())
    return false;
  std::memcpy(target.data() + received_, bytes.data(), bytes.size());
  received_ += bytes.size();
  return true;
}

payload chunk_receiver::take_payload() && {
  return std::move(buffer_).seal();
}

} // namespace troupe::transport
