#pragma once
// Transfers the tensors of frames; each kind of path has a carrier. Frames
// themselves go in order over a socket (path.hpp) or the actor connection
// (chunk_channel.hpp), whose end owns the carrier and asks it for each tensor.
//
// Thread-safety: `place` is called by threads that send, by one at a time and
// in the order of frames; `expect`, `intercept` and `let_go` by the thread that
// receives. A carrier locks what these share.

#include "messages/gradient_stream.hpp"
#include "messages/transport/wire/frame.hpp"
#include "messages/transport/wire/let_go_ledger.hpp"

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::transport {

/// What goes over the socket with the frame of a tensor.
struct outgoing_tensor {
  payload follows;  ///< Its bytes are sent behind the frame, unless empty, ...
  size_t first = 0; ///< ... from this byte to the end, then from 0.
  int file = -1;    ///< A file descriptor that is passed with the frame.
  std::shared_ptr<const void> file_owner;
};

/// The tensor of a frame that arrives.
struct incoming_tensor {
  payload tensor;
  /// The part of its memory that the bytes behind the frame fill, ...
  std::span<std::byte> follows;
  size_t first = 0; ///< ... from this byte to the end, then from 0.
  /// Whether the frame is handed out before these bytes are there.
  bool early = false;
};

class tensor_carrier {
public:
  virtual ~tensor_carrier() = default;

  /// The kind of path, as in `--transport`.
  virtual std::string_view name() const = 0;

  /// Enters in the head how the tensor is transferred, and prepares that.
  virtual outgoing_tensor place(frame_head& head, const payload& tensor) = 0;

  /// Memory for the tensor, or the piece of one, that comes with this head. The
  /// files that were passed may be taken out. Throws `path_error` for what
  /// cannot be right.
  virtual incoming_tensor expect(const frame_head& head,
                                 std::vector<descriptor>& files) = 0;

  /// The other end no longer reads the tensor of this request.
  virtual void let_go(uint64_t) {
    // nop
  }

  /// Handles a received frame that is internal to the carrier, and each piece.
  /// False for a frame to hand out.
  virtual bool intercept(frame&) { return false; }

  /// The path is closed: what waits for a transfer ends soon. Any thread; may
  /// be called more than once.
  virtual void end() {
    // nop
  }

  /// Whether tensors in the memory of this process's GPU are sent from there.
  virtual bool sends_from_device() const { return false; }

  /// Sends gradients while they are computed; null if that is not possible.
  virtual gradient_stream* early_gradients() { return nullptr; }
};

/// A path as its carrier sees it. Thread-safe.
class frame_line {
public:
  /// Sends a frame of the carrier's own; never blocks.
  virtual void send_now(const frame& message) = 0;

  /// Sends a piece of a tensor whose frame follows later; never blocks.
  virtual void send_piece(uint64_t number, uint64_t offset, payload piece) = 0;

  /// Closes both ends; the first reason is kept.
  virtual void close(const std::string& why) = 0;

  /// Whether the other end has closed, which otherwise only a read would
  /// notice.
  virtual bool is_cut() const = 0;

  /// Seconds so far in which bytes were being sent.
  virtual double seconds_on_the_way() const = 0;

  /// Records which tensors of the other end are released.
  virtual const let_go_ledger_ptr& ledger() const = 0;

protected:
  ~frame_line() = default;
};

} // namespace troupe::transport
