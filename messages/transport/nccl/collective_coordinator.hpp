#pragma once
// The parameter server's part in a collective over NCCL: the gradients of a
// synchronous step are summed on the GPUs on their way to the server, and the
// weights that answer them are broadcast to all workers.
//
// Nobody starts an operation before all members can take part. A worker offers
// a gradient: it sends the header of its push without the numbers. When every
// member has offered one or waits for the server, the coordinator decides. If
// all have offered, each is told to give its gradient, times its share of the
// samples; otherwise each is told to send its own over the stream. Then every
// push carries the same tensor, the mean of all, and the mean of those by
// samples is that tensor again. Answers with the same weights are held until
// there is one for each of these pushes, and are sent in one broadcast; a
// worker that does not get it asks again and gets its answer over the stream.
//
//   worker            root                         worker            root
//     |-- offer ------->|  (from all)                |<-- release -----|
//     |<-- give --------|                            |<== broadcast ===|
//     |=== reduce =====>|  (push, for each)          |-- again ------->|
//     |<-- fetch -------|  if it is not to be        |<-- release, ----|
//     |-- push, tensor->|                            |     tensor      |
//
// The pushes of a sum count together or not at all, which the lead decides: it
// accepts the sum when all of its pushes have arrived and are valid, and gives
// it up when one of them is not or one of its workers has left. A sum that is
// not finite is given up here. Then each worker is told to send its own
// gradient.
//
// Who joins which communicator is decided by nccl::rendezvous. A change of
// members, or a failure, ends the communicator; unfinished transfers, and all
// later ones until the next communicator is open, use the stream.
//
// One object per server, shared by its paths and the lead. Thread-safe.
// Communicators are created and aborted by the thread that polls.

#include "messages/gradient_sums.hpp"
#include "messages/payload_memory.hpp"
#include "messages/transport/nccl/collective_frames.hpp"
#include "messages/transport/nccl/transfer_set.hpp"
#include "messages/transport/wire/tensor_carrier.hpp"

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace troupe::transport {

/// A push whose gradient still waits at the worker.
struct collective_offer {
  transfer_id request;
  push_id id;
  caf::byte_buffer header;
  payload_shape gradient;
  uint64_t samples = 0;
};

struct collective_terms {
  nccl::library_ptr library;
  int device = 0;
  payload_shape weights; ///< Shape of weights and gradients.
  nccl::patience limits{};
  nccl::rendezvous_rules rules{};
  double transfer = 60; ///< s for one operation.
  double settling = .2; ///< s without a new member before they meet.
  double holding = .1;  ///< s that an answer waits for the others.
  /// s that offers wait for those of the other members. A member that does not
  /// offer by then takes no part in collectives any more.
  double waiting = 10;
  std::function<void(const std::string&)> say; ///< Writes a line to the log.
  std::function<double()> clock;               ///< s; empty: the steady clock.
};

class collective_coordinator final : public gradient_sums {
public:
  explicit collective_coordinator(collective_terms terms);

  ~collective_coordinator() override;

  collective_coordinator(const collective_coordinator&) = delete;
  collective_coordinator& operator=(const collective_coordinator&) = delete;

  // -- called by seats --------------------------------------------------------

  // A seat is the server's end of one worker's path. It is called with the lock
  // held, so it must not call back.

  void enter(frame_line& who, const collective_attendance& as);

  /// The seat has gone and is not called any more.
  void leave(const frame_line& who);

  void answered(const frame_line& who, const collective_answer& answer);

  /// The worker sent a request to the server; a push tells its life.
  void asked(const frame_line& who, std::optional<life_number> life = {});

  void offered(frame_line& who, collective_offer news);

  /// The server answers the worker. Returns true when the coordinator keeps the
  /// answer and sends it later.
  bool keeps(const frame_line& who, const frame& message);

  /// The worker did not get its answer by the broadcast.
  void again(const frame_line& who, transfer_id request);

  /// As tensor_carrier::poll. One seat at a time does the work for all.
  std::optional<double> poll(const frame_line& who, bool closed);

  /// Whether a communicator is open, so that gradients can be summed.
  bool is_open() const;

  // -- called by the lead (gradient_sums) -------------------------------------

  std::optional<gradient_sum> find(const push_id& which,
                                   const payload& gradient) override;

  void note_accepted(uint64_t number) override;

  void give_up(uint64_t number) override;

  void left(worker_id who, life_number life) override;

private:
  struct offer : collective_offer {
    double since = 0;
  };

  struct member {
    frame_line* seat;
    nccl::attendee who;
    size_t asked = 0; ///< Requests that the server has not answered.
    std::optional<offer> offered;
    std::optional<frame> last;         ///< Sent by broadcast.
    bool left_out = false;             ///< The others waited for it in vain.
    std::optional<life_number> life{}; ///< As in its last push.
    bool gone = false;                 ///< The lead has removed it.
  };

  /// The pushes of one sum.
  struct step {
    uint64_t number = 0;
    std::map<nccl::attendee, offer> parts;
    memory_block sum;
    bool there = false; ///< The server has got the pushes, ...
    bool taken = false; ///< ... and has accepted them.
    bool alone = false; ///< Each answer is sent on the stream.
    std::map<nccl::attendee, frame> held;
    double held_since = 0;
  };

  /// The push of a sum that was given up, on its way to the lead and back.
  struct void_push {
    const frame_line* seat;
    transfer_id request;
    push_id id;
    memory_block sum;
  };

  using lock = std::lock_guard<std::mutex>;

  member* find(const frame_line& who);
  member* find(const nccl::attendee& who);
  void remove(const frame_line& who);

  void decide();
  void begin_step();
  void summed(uint64_t number, bool done);
  void fetch_all();
  std::optional<double> oldest_offer() const;
  void leave_out_silent(double now);
  bool fits(const member& to, const frame& message) const;
  void let_held_go();
  void spread();
  void give_up_step();
  void give_up_broadcast();
  bool swallows(const frame_line& who, const frame& message);

  void move_on(double now);
  void take_answers(double now);
  void look_at_communicator(double now);
  void carry_out(const nccl::orders& all, double now);
  void carry_out(const nccl::make_id& order, double now);
  void carry_out(const nccl::invite& order, double now);
  void carry_out(const nccl::begin_root& order, double now);
  void carry_out(const nccl::announce& order, double now);
  void carry_out(const nccl::dissolve& order, double now);
  void carry_out(const nccl::end_root& order, double now);
  void carry_out(const nccl::leave_out& order, double now);
  void carry_out(const nccl::switch_off& order, double now);
  std::optional<double> next_look(double now) const;

  collective_terms terms_;
  mutable std::mutex mutex_;
  payload_pool sums_;
  std::vector<member> members_;
  uint32_t entries_ = 0;
  nccl::rendezvous rendezvous_;
  std::optional<double> assemble_at_; ///< Members came or went.
  std::vector<std::pair<nccl::attendee, collective_answer>> answers_;
  nccl_transfer_ptr transfer_; ///< Of the newest communicator.
  bool root_is_ready_ = false;
  bool transfer_is_busy_ = false;
  uint64_t steps_ = 0;
  std::optional<step> step_;
  std::vector<void_push> void_;
  /// The last member, so that it ends first: its transfers then call back.
  transfer_set transfers_;
};

using collective_coordinator_ptr = std::shared_ptr<collective_coordinator>;

} // namespace troupe::transport
