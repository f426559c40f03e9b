#pragma once
// Gradients that go ahead of their push, in pieces, while backward makes them:
// from the end to the beginning, each next to the one before. The push itself
// then only names the tensor.
//
// What backward has made goes out as soon as a bucket is full, as in
// DistributedDataParallel (Li et al., "PyTorch Distributed", VLDB 2020, 3.2.3).

#include "config/text/settings.hpp"
#include "messages/payload_memory.hpp"
#include "messages/transport/wire/frame.hpp"

#include <mutex>
#include <optional>

namespace troupe::transport {

/// Bytes that are worth a piece.
inline constexpr uint64_t bucket_bytes = 1u << 20;

/// The sender's part. Thread-safe: one thread computes, another pushes.
class pieces_out {
public:
  struct piece {
    uint64_t number = 0; ///< Of the tensor.
    uint64_t offset = 0; ///< In bytes.
    payload what;
  };

  /// @param shape Of the tensors that can be pushed; others stay whole.
  pieces_out(config::overlap_rule rule, payload_shape shape);

  void begin(const payload& tensor);

  /// Bytes from `from` to the end are there: what is to be sent of them, if
  /// anything.
  std::optional<piece> ready(uint64_t from);

  /// What `ready` gave is on its way.
  void sent(const piece& what);

  /// A tensor took so many seconds; bytes have been on their way for so many,
  /// since ever. By the rule `automatic` the next ones go ahead if that was
  /// not small beside it.
  void computed(double seconds, double on_the_way);

  /// Do tensors go ahead now?
  bool on() const;

  /// This tensor is pushed: its number if all of it has gone ahead. Whatever
  /// was going ahead is forgotten.
  std::optional<uint64_t> take(const payload& tensor);

private:
  /// What of a tensor goes ahead.
  struct current {
    payload tensor;
    uint64_t left = 0; ///< Bytes from the beginning that have not gone.
  };

  /// Of the time that computing takes.
  static constexpr double small_share = 0.1;

  mutable std::mutex mutex_;
  config::overlap_rule rule_;
  payload_shape shape_;
  bool on_;
  double on_the_way_ = 0;
  uint64_t number_ = 0; ///< Of the current tensor.
  std::optional<current> current_;
};

/// The receiver's part. Belongs to one thread. What cannot be is a
/// `path_error`.
class pieces_in {
public:
  explicit pieces_in(payload_shape shape) : shape_(shape) {
    // nop
  }

  /// Does this piece begin another tensor? What there was of the one before is
  /// forgotten: it has been cancelled.
  bool begins(const frame_head& piece);

  /// Memory for the tensor that begins.
  void begin(const frame_head& piece, std::shared_ptr<std::byte> memory);

  /// Where its bytes belong.
  std::span<std::byte> place(const frame_head& piece);

  /// The tensor of this number, which is whole.
  payload take(uint64_t number);

private:
  payload_shape shape_;
  uint64_t number_ = 0;
  std::shared_ptr<std::byte> memory_;
  uint64_t left_ = 0; ///< Bytes from the beginning that have not come.
};

} // namespace troupe::transport
