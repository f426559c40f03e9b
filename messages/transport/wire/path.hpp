#pragma once
// One end of a tensor path, a connection beside the actor connection: frames
// are sent and received over a socket, in order. Its carrier transfers their
// tensors (tensor_carrier.hpp). Owned by a link or gateway and its helper
// actors.
//
// Thread-safety: one thread sends, one other receives, and a third may write
// what would have blocked the sender. Any thread may close it.

#include "messages/transport/wire/path_terms.hpp"
#include "messages/transport/wire/tensor_carrier.hpp"

#include <atomic>
#include <deque>
#include <functional>
#include <mutex>
#include <utility>

namespace troupe::transport {

class path final : private frame_line {
public:
  /// Makes the carrier of a path. The `frame_line` lives as long as the
  /// carrier.
  using carrier_maker =
    std::function<std::unique_ptr<tensor_carrier>(frame_line&)>;

  path(socket line, const path_terms& terms, const carrier_maker& make);

  ~path();

  path(const path&) = delete;
  path& operator=(const path&) = delete;

  /// Its name, as in `--transport`.
  std::string_view name() const { return carrier_->name(); }

  /// Sends a frame as far as that does not block. Returns true when a rest is
  /// left and the caller must have `write_rest` called.
  bool send(const frame& message);

  /// Tells the other end which tensors are released, if any; otherwise as
  /// `send`.
  bool send_let_gos();

  /// Writes all frames that wait, and blocks meanwhile.
  void write_rest();

  /// Sets a function that is called, on any thread, when `write_rest` is needed
  /// and no call of `send` can return that.
  void on_waiting(const std::function<void()>& call);

  /// Waits for the next frame; nothing when the path is closed. Throws
  /// `path_error`, or what allocation throws: then no frame follows. The rest
  /// of a tensor that was handed out early is received by the next call.
  std::optional<frame> receive();

  bool sends_from_device() const { return carrier_->sends_from_device(); }

  /// The stream that sends gradients while they are computed; null if this path
  /// has none. Lives as long as the path.
  gradient_stream* early_gradients() { return carrier_->early_gradients(); }

  /// Closes the path at both ends and wakes all who wait. The first reason is
  /// kept.
  void close(const std::string& why) override;

  std::string why_closed() const;

  let_go_ledger& let_gos() { return *let_gos_; }

private:
  /// A frame that is being sent.
  struct outgoing {
    caf::byte_buffer bytes; ///< Head, numbers, header.
    outgoing_tensor tensor;
    size_t done = 0; ///< Bytes sent.
  };

  /// A tensor that was handed out early, and of which the rest is still to be
  /// received.
  struct unfinished {
    incoming_tensor rest;
    arrival_ptr progress;
  };

  // As the carrier sees it:

  void send_now(const frame& message) override;
  void send_piece(uint64_t number, uint64_t offset, payload piece) override;
  bool is_cut() const override { return line_.is_cut(); }
  double seconds_on_the_way() const override {
    return line_.seconds_on_the_way();
  }
  const let_go_ledger_ptr& ledger() const override { return let_gos_; }

  outgoing encode_frame(const frame& message);
  bool enqueue(outgoing next);
  bool append(outgoing next);
  bool write(outgoing& next, bool wait);
  void receive_rest();
  frame receive_frame(const frame_head& head, std::vector<descriptor>& files);
  incoming_tensor open_tensor(const frame_head& head,
                              std::vector<descriptor>& files);
  std::optional<bool> receive_tensor(const frame_head& head,
                                     const incoming_tensor& incoming);
  void hand_out_early(incoming_tensor& incoming);

  socket line_;
  path_terms terms_;
  let_go_ledger_ptr let_gos_ = std::make_shared<let_go_ledger>();
  std::mutex sending_;
  std::deque<outgoing> queue_;
  bool writer_called_ = false;
  std::function<void()> on_waiting_;
  std::optional<unfinished> unfinished_; ///< Used by the receiving thread only.
  std::atomic<bool> closed_ = false;
  mutable std::mutex closing_;
  std::string why_;
  /// The last member: while it ends it may still send.
  std::unique_ptr<tensor_carrier> carrier_;
};

using path_ptr = std::shared_ptr<path>;

/// A path with such a carrier, which is made of a `frame_line`, the terms and
/// the other arguments.
template <class Carrier, class... Ts>
path_ptr make_path(socket line, const path_terms& terms, Ts... more) {
  return std::make_shared<path>(std::move(line), terms, [&](frame_line& here) {
    return std::make_unique<Carrier>(here, terms, std::move(more)...);
  });
}

} // namespace troupe::transport
