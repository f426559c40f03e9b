#pragma once
// One end of a tensor path, a connection beside the actor connection: frames
// are sent and received over a socket, in order. The subclasses (stream_path,
// shm_path, nccl_path, collective_path) decide how the tensor of a frame is
// transferred. Owned by a link or gateway and its helper actors.
//
// Thread-safety: one thread sends, one other receives, and a third may write
// what would have blocked the sender. Any thread may close it.

#include "config/text/settings.hpp"
#include "messages/gradient_stream.hpp"
#include "messages/payload_memory.hpp"
#include "messages/transport/wire/frame.hpp"

#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string_view>

namespace troupe::transport {

/// What an end accepts from the other end, and sends to it.
struct path_terms {
  payload_shape expected; ///< The shape of all tensors received.
  /// How many received tensors may be in use at a time; one more breaks the
  /// path.
  size_t most_tensors = SIZE_MAX;
  /// Where these are parts of a larger tensor: its shape. The other end's
  /// regions may be as large, and such tensors may be sent, too.
  payload_shape whole = {};
  /// The shape of sent tensors, where it differs: gradients may be compressed,
  /// weights are not.
  payload_shape sent = {};
  /// Tensors of that shape are sent from this byte to the end, then from 0: a
  /// receiver that reads them while they arrive needs their end first.
  uint64_t first_sent = 0;
  /// Whether tensors are sent while they are computed, and used while they
  /// arrive.
  config::overlap_rule overlap = config::overlap_rule::off;
  /// With overlap: whether arriving tensors may be used before they are
  /// complete.
  bool in_use_early = true;
  /// Whether tensors that come over the socket are searched for NaN and
  /// infinity on the way (`payload::finite`).
  bool checks_numbers = false;
  /// The most elements of activations in a frame, either way; 0: none are sent.
  uint64_t most_activations = 0;

  /// The largest shape of activations. They have the type of the weights.
  payload_shape activations() const {
    return {expected.type, most_activations};
  }

  bool sends(frame_kind kind, const payload_shape& what) const {
    if (has_activations(kind))
      return takes_activations(what);
    return what == expected || (whole.count > 0 && what == whole) ||
           (sent.count > 0 && what == sent);
  }

  bool takes(frame_kind kind, const payload_shape& what) const {
    return has_activations(kind) ? takes_activations(what) : what == expected;
  }

  uint64_t most_region_bytes() const {
    return std::max({expected.bytes(), whole.bytes(), activations().bytes()});
  }

private:
  bool takes_activations(const payload_shape& what) const {
    return what.type == expected.type && what.count <= most_activations;
  }
};

/// Records the tensors of the other end's memory that nobody here reads any
/// more, until the other end is told. Outlives the path while readers remain.
/// Thread-safe.
class let_go_ledger {
public:
  /// Sets a function that is called, on any thread, when there is something to
  /// tell. It is not called again before `heard`, because usually the next
  /// frame carries the news.
  void on_entry(std::function<void()> call);

  void enter(uint64_t number);

  /// Lets the next entry call the function again.
  void heard();

  /// Takes out at most so many entries; the others stay.
  std::vector<uint64_t> take(size_t most);

private:
  std::mutex mutex_;
  std::vector<uint64_t> numbers_;
  std::function<void()> call_;
  bool called_ = false;
};

class path {
public:
  path(socket line, const path_terms& terms);

  virtual ~path();

  path(const path&) = delete;
  path& operator=(const path&) = delete;

  /// Its name, as in `--transport`.
  virtual std::string_view name() const = 0;

  /// Sends a frame as far as that does not block. Returns true when a rest is
  /// left and the caller must have `write_rest` called.
  bool send(frame_kind kind, transfer_id request,
            const caf::byte_buffer& header, const payload& tensor);

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

  /// Sets a function that is called, on any thread, with frames that did not
  /// arrive by `receive`.
  void on_frame(std::function<void(frame)> call);

  /// Makes progress with transfers that no call waits for. Returns in how many
  /// seconds to call again, infinity when only `on_work` will announce new
  /// work, and nothing when the path is closed and all has ended.
  virtual std::optional<double> poll(double) { return std::nullopt; }

  /// Must `poll` be called?
  virtual bool needs_polling() const { return false; }

  /// Sets a function that is called, on any thread, when `poll` has something
  /// to do.
  void on_work(std::function<void()> call);

  /// The stream that sends gradients while they are computed; null if this path
  /// has none. Lives as long as the path.
  virtual gradient_stream* early_gradients() { return nullptr; }

  /// Closes the path at both ends and wakes all who wait. The first reason is
  /// kept.
  void close(const std::string& why);

  std::string why_closed() const;

  let_go_ledger& let_gos() { return *let_gos_; }

protected:
  /// A frame that is being sent.
  struct outgoing {
    caf::byte_buffer bytes;            ///< Head, numbers, header.
    payload tensor;                    ///< Follows on the socket, unless empty.
    std::shared_ptr<const void> keeps; ///< Owner of `passes`.
    int passes = -1;                   ///< A file descriptor passed with it.
    size_t first = 0; ///< Byte of the tensor that is sent first.
    size_t done = 0;  ///< Bytes sent.
  };

  /// Memory that is filled from `first` to the end, then from the beginning.
  struct incoming {
    std::span<std::byte> bytes;
    size_t first = 0;
  };

  /// Enters in the head how the tensor is transferred, and prepares that.
  /// Called in the order of frames.
  virtual void place(frame_head& head, const payload& tensor,
                     outgoing& out) = 0;

  /// Returns memory for a tensor that arrives; `follows` becomes the part of it
  /// that the socket fills.
  virtual payload expect(const frame_head& head,
                         std::vector<descriptor>& passed,
                         incoming& follows) = 0;

  /// Memory for a piece of a tensor to come.
  virtual std::span<std::byte> expect_piece(const frame_head& head);

  /// That piece is there; whether its numbers are finite, if that is checked.
  virtual void take_piece(std::optional<bool> finite);

  /// Handles a received frame that is internal to the path or whose tensor
  /// arrives another way. Returns false for a frame that `receive` is to
  /// return.
  virtual bool takes(frame&) { return false; }

  /// Keeps a frame back to send it later; false for one to send now.
  virtual bool keeps(frame_kind, transfer_id, const caf::byte_buffer&,
                     const payload&) {
    return false;
  }

  /// Sends without asking `keeps`; any thread, never blocks. If `carried` is
  /// `device`, the tensor itself is not sent on the socket.
  void send_now(frame_kind kind, transfer_id request,
                const caf::byte_buffer& header, const payload& tensor,
                carriage carried = carriage::none);

  /// Passes a frame to the function that `on_frame` set.
  void hand_in(frame what);

  /// Calls the function that `on_work` set.
  void work() const;

  bool is_closed() const { return closed_; }

  /// Whether the other end has closed. Only reading would notice that
  /// otherwise.
  bool is_cut() const { return line_.is_cut(); }

  /// Whether `receive` returns a tensor before it is complete.
  virtual bool hands_out_early(const frame_head&) const { return false; }

  /// Sends a piece of a tensor whose frame follows later; never blocks.
  void send_piece(uint64_t number, uint64_t offset, payload piece);

  /// Seconds so far in which bytes were being sent.
  double seconds_on_the_way() const { return line_.seconds_on_the_way(); }

  /// The other end has released the tensor of this frame.
  virtual void let_go(uint64_t) {
    // nop
  }

  const path_terms& terms() const { return terms_; }

  const std::shared_ptr<let_go_ledger>& ledger() const { return let_gos_; }

private:
  /// A tensor that was handed out early, and what of it is still to be
  /// received.
  struct unfinished {
    incoming what;
    payload tensor;
    arrival_ptr progress;
  };

  outgoing make(frame_kind kind, transfer_id request,
                const caf::byte_buffer& header, const payload& tensor,
                carriage carried = carriage::none);
  bool enqueue(outgoing what);
  bool write(outgoing& what, bool wait);
  void finish();
  std::optional<frame> receive_frame(const frame_head& head,
                                     std::vector<descriptor>& passed);
  incoming open_tensor(const frame_head& head, std::vector<descriptor>& passed,
                       frame& out);
  std::optional<bool> receive_tensor(const frame_head& head,
                                     const incoming& what);
  void hand_out(frame& out, incoming& follows);

  socket line_;
  path_terms terms_;
  std::shared_ptr<let_go_ledger> let_gos_ = std::make_shared<let_go_ledger>();
  std::mutex sending_;
  std::deque<outgoing> queue_;
  bool writer_called_ = false;
  std::function<void()> on_waiting_;
  std::optional<unfinished> unfinished_; ///< Used by the receiving thread only.
  std::atomic<bool> closed_ = false;
  mutable std::mutex closing_;
  std::string why_;
  std::function<void()> on_work_;
  std::function<void(frame)> on_frame_;
};

using path_ptr = std::shared_ptr<path>;

} // namespace troupe::transport
