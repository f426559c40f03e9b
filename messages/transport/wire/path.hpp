#pragma once
// One end of a path of its own: frames go out and come in over a socket, in
// order. How the tensor of a frame gets across is the business of the kinds
// below it (stream_path, shm_path).
//
// Thread-safety: one thread sends, one other reads, and a third may write what
// would have made the first wait. Anybody may close.

#include "config/text/settings.hpp"
#include "messages/gradient_stream.hpp"
#include "messages/payload_memory.hpp"
#include "messages/transport/wire/frame.hpp"

#include <atomic>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string_view>

namespace troupe::transport {

/// What an end takes from the other.
struct path_terms {
  payload_shape expected; ///< The shape of all tensors that come.
  /// Tensors that may be here at a time; one more breaks the path.
  size_t most_tensors = SIZE_MAX;
  /// Where these are part of a whole: memory of the other end that they lie in
  /// may be as large, and such tensors may be sent, too.
  payload_shape whole = {};
  /// The shape of tensors that are sent, where that is another: gradients may
  /// be compressed, weights are not.
  payload_shape sent = {};
  /// Tensors of that shape go out from this byte on, what lies before it last:
  /// whoever reads them while they come needs their end first.
  uint64_t first_sent = 0;
  /// Whether tensors go out and in while they are made and used.
  config::overlap_rule overlap = config::overlap_rule::off;
  /// With it: whether those that come may be used before they are whole.
  bool in_use_early = true;

  bool sends(const payload_shape& what) const {
    return what == expected || (whole.count > 0 && what == whole) ||
           (sent.count > 0 && what == sent);
  }

  uint64_t most_region_bytes() const {
    return expected.bytes() > whole.bytes() ? expected.bytes() : whole.bytes();
  }
};

/// Tensors that lie in memory of the other end and that nobody here reads any
/// more: it must be told. Outlives the path while somebody reads. Thread-safe.
class let_go_ledger {
public:
  /// Called, on any thread, when there is something to tell; not again before
  /// `heard`, since mostly the next frame tells it.
  void on_entry(std::function<void()> call);

  void enter(uint64_t number);

  /// The next entry calls again.
  void heard();

  /// At most so many; what is left stays.
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

  /// As `--transport` names it.
  virtual std::string_view name() const = 0;

  /// Sends, as far as it goes without waiting. True when the rest waits and
  /// somebody has to call `write_rest`.
  bool send(frame_kind kind, transfer_id request,
            const caf::byte_buffer& header, const payload& tensor);

  /// Sends what there is to let go of, if anything; otherwise as `send`.
  bool send_let_gos();

  /// Writes all that waits.
  void write_rest();

  /// Called, on any thread, when `write_rest` has to be and no sender can be
  /// told.
  void on_waiting(std::function<void()> call);

  /// Waits for the next frame; nothing when the path is closed. Throws
  /// `path_error`, or what taking memory throws: then no frame follows. A
  /// tensor that is still arriving comes in with the next call.
  std::optional<frame> receive();

  /// Called, on any thread, with frames that came another way than `receive`.
  void on_frame(std::function<void(frame)> call);

  /// Moves on what nobody waits for, and says in how many s to call again;
  /// without end when something has to happen first (`on_work`). Nothing when
  /// the path is closed and all is at rest.
  virtual std::optional<double> poll(double) { return std::nullopt; }

  /// Does it have to be polled?
  virtual bool needs_polling() const { return false; }

  /// Called, on any thread, when `poll` has something to do.
  void on_work(std::function<void()> call);

  /// Where gradients may go while they are made; null: not on this path. Lives
  /// as long as the path.
  virtual gradient_stream* early_gradients() { return nullptr; }

  /// Ends it for both ends and wakes all who wait. The first reason counts.
  void close(const std::string& why);

  std::string why_closed() const;

  let_go_ledger& let_gos() { return *let_gos_; }

protected:
  /// A frame on its way out.
  struct outgoing {
    caf::byte_buffer bytes;            ///< Head, numbers, header.
    payload tensor;                    ///< Its bytes follow; none otherwise.
    std::shared_ptr<const void> keeps; ///< Whoever owns `passes`.
    int passes = -1;                   ///< A file that goes along.
    size_t first = 0;                  ///< Byte of the tensor that goes first.
    size_t done = 0;                   ///< Bytes that went.
  };

  /// Memory that is filled from `first` to the end, then from the beginning.
  struct incoming {
    std::span<std::byte> bytes;
    size_t first = 0;
  };

  /// Says in the head how the tensor gets across, and prepares that. It is
  /// called in the order of frames.
  virtual void place(frame_head& head, const payload& tensor,
                     outgoing& out) = 0;

  /// Memory for a tensor that arrives; `follows` is what of it is to be filled.
  virtual payload expect(const frame_head& head,
                         std::vector<descriptor>& passed,
                         incoming& follows) = 0;

  /// Memory for a piece of a tensor to come.
  virtual std::span<std::byte> expect_piece(const frame_head& head);

  /// Takes a frame that came: one between the two ends of a path, or one whose
  /// tensor comes another way. False for one that `receive` returns.
  virtual bool takes(frame&) { return false; }

  /// Takes a frame that is to go, to send it later; false for one that goes.
  virtual bool keeps(frame_kind, transfer_id, const caf::byte_buffer&,
                     const payload&) {
    return false;
  }

  /// Sends without asking `keeps`. On any thread; never waits. With `device`
  /// for `carried` the tensor itself does not take the socket.
  void send_now(frame_kind kind, transfer_id request,
                const caf::byte_buffer& header, const payload& tensor,
                carriage carried = carriage::none);

  /// Hands a frame to whoever asked for them with `on_frame`.
  void hand_in(frame what);

  /// Something is to be polled.
  void work() const;

  bool is_closed() const { return closed_; }

  /// Whether the other end has closed, which nobody sees who does not read.
  bool is_cut() const { return line_.is_cut(); }

  /// Whether a tensor is handed out before it is whole.
  virtual bool hands_out_early(const frame_head&) const { return false; }

  /// Sends a piece of a tensor whose frame follows later; never waits.
  void send_piece(uint64_t number, uint64_t offset, payload piece);

  /// s that bytes were on their way out, so far.
  double seconds_on_the_way() const { return line_.seconds_on_the_way(); }

  /// The other end lets go of the tensor of this frame.
  virtual void let_go(uint64_t) {
    // nop
  }

  const path_terms& terms() const { return terms_; }

  const std::shared_ptr<let_go_ledger>& ledger() const { return let_gos_; }

private:
  /// A tensor that was handed out, and what of it is still to come.
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
  void hand_out(frame& out, incoming& follows);

  socket line_;
  path_terms terms_;
  std::shared_ptr<let_go_ledger> let_gos_ = std::make_shared<let_go_ledger>();
  std::mutex sending_;
  std::deque<outgoing> queue_;
  bool writer_called_ = false;
  std::function<void()> on_waiting_;
  std::optional<unfinished> unfinished_; ///< Of whoever receives.
  std::atomic<bool> closed_ = false;
  mutable std::mutex closing_;
  std::string why_;
  std::function<void()> on_work_;
  std::function<void(frame)> on_frame_;
};

using path_ptr = std::shared_ptr<path>;

} // namespace troupe::transport
