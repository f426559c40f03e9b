#pragma once
// Both ends of a chunked transfer with credit, as plain state machines: what to
// send next, and where an arriving chunk belongs. Used by links and shards over
// the actor connection, where one large message would block the connection and
// be copied several times.
//
// The sender has at most `window` bytes on the way that the receiver has not
// acknowledged, so that neither mailboxes nor socket buffers grow with the size
// of the model. Chunks arrive in order. Each object belongs to one actor; not
// thread-safe.

#include "messages/types.hpp"

#include <optional>

namespace troupe::transport {

/// Bytes of one chunk, and of all chunks on the way. Measured on loopback:
/// larger chunks are slower, smaller windows leave the link idle.
inline constexpr uint64_t default_chunk_bytes = 1u << 20;
inline constexpr uint64_t default_window_bytes = 4u << 20;

class chunk_sender {
public:
  /// Sends chunks of `chunk_bytes`, or of the whole window when that is
  /// smaller; neither is 0.
  chunk_sender(transfer_id id, payload source,
               uint64_t chunk_bytes = default_chunk_bytes,
               uint64_t window_bytes = default_window_bytes);

  /// The next chunk, or nothing while the credit is used up or all is sent.
  std::optional<chunk> next();

  /// The receiver has `received` bytes in total. Returns false for an
  /// impossible number: more than was sent, or less than it reported before.
  bool credit(uint64_t received);

  /// Has everything arrived?
  bool done() const { return acknowledged_ == source_.shape().bytes(); }

private:
  transfer_id id_;
  payload source_;
  uint64_t chunk_bytes_;
  uint64_t window_bytes_;
  uint64_t sent_ = 0;
  uint64_t acknowledged_ = 0;
};

class chunk_receiver {
public:
  /// Allocates memory for the whole payload. The caller has already compared
  /// the shape with the one expected.
  explicit chunk_receiver(payload_shape shape);

  /// Copies a chunk to its place. Returns false when it does not follow the
  /// previous one or reaches past the end: the sender breaks the protocol.
  bool accept(const chunk& piece);

  /// Bytes received so far: the credit to grant.
  uint64_t received() const { return received_; }

  bool complete() const { return received_ == buffer_.bytes().size(); }

  /// The complete payload; the receiver must not be used afterwards.
  payload take_payload() &&;

private:
  // Spans of a non-const buffer are needed in const functions.
  mutable payload_buffer buffer_;
  uint64_t received_ = 0;
};

} // namespace troupe::transport
