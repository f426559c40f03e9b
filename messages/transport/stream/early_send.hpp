#pragma once
// Sends gradients in pieces before their push, while backward computes them:
// from the end to the beginning, each piece next to the one before. The push
// itself then only names the tensor. Each end of a stream path owns one half.
//
// What backward has computed is sent as soon as it fills a bucket, as in
// DistributedDataParallel (Li et al., "PyTorch Distributed", VLDB 2020, 3.2.3).

#include "config/text/settings.hpp"
#include "messages/payload_memory.hpp"
#include "messages/transport/wire/frame.hpp"

#include <mutex>
#include <optional>

namespace troupe::transport {

/// The size at which a piece is sent.
inline constexpr uint64_t bucket_bytes = 1u << 20;

/// The sender's half. Thread-safe: one thread computes, another pushes.
class pieces_out {
public:
  struct piece {
    uint64_t number = 0; ///< Of the tensor.
    uint64_t offset = 0; ///< In bytes.
    payload what;
  };

  /// @param shape The shape of tensors sent early; others are sent whole.
  pieces_out(config::overlap_rule rule, payload_shape shape);

  void begin(const payload& tensor);

  /// The bytes from `from` to the end are final. Returns the piece to send now,
  /// if any.
  std::optional<piece> ready(uint64_t from);

  /// The piece that `ready` returned has been handed to the socket.
  void sent(const piece& part);

  /// Computing a tensor took `seconds`; `on_the_way` counts the seconds since
  /// the start in which bytes were being sent. Under the rule `automatic` the
  /// next tensors are sent early if sending takes more than a small share of
  /// the time that computing takes.
  void computed(double seconds, double on_the_way);

  /// Are tensors sent early now?
  bool on() const;

  /// This tensor is pushed: returns its number if all of it was sent early. Any
  /// tensor partly sent is forgotten.
  std::optional<uint64_t> take_number(const payload& tensor);

private:
  /// The tensor that is being sent early.
  struct current {
    payload tensor;
    uint64_t left = 0; ///< Bytes at the beginning not yet sent.
  };

  /// Share of the computing time up to which sending counts as short.
  static constexpr double small_share = 0.1;

  mutable std::mutex mutex_;
  config::overlap_rule rule_;
  payload_shape shape_;
  bool on_;
  double on_the_way_ = 0;
  uint64_t number_ = 0; ///< Of the current tensor.
  std::optional<current> current_;
};

/// The receiver's half. Belongs to the thread that reads the path. Pieces that
/// cannot be right throw `path_error`.
class pieces_in {
public:
  explicit pieces_in(payload_shape shape) : shape_(shape) {
    // nop
  }

  /// Does this piece begin another tensor? If so, the previous one was
  /// cancelled, and its pieces are forgotten.
  bool begins(const frame_head& piece);

  /// Memory for the tensor that begins.
  void begin(const frame_head& piece, std::shared_ptr<std::byte> memory);

  /// Where the bytes of this piece belong.
  std::span<std::byte> place(const frame_head& piece);

  /// Notes whether the numbers of a piece are finite, if that is known.
  void look_at(std::optional<bool> finite);

  /// The tensor of this number, which must be complete.
  payload take_payload(uint64_t number);

private:
  payload_shape shape_;
  uint64_t number_ = 0;
  std::shared_ptr<std::byte> memory_;
  uint64_t left_ = 0;          ///< Bytes at the beginning not yet received.
  std::optional<bool> finite_; ///< Of all pieces so far.
};

} // namespace troupe::transport
