#pragma once
// One rank's end of one NCCL communicator, with a stream of its own, as a state
// machine that is polled:
//
//   initialising -> ready -> closing -> closed
//        \____________\________\_____-> stopping -> failed
//
// Nothing here sleeps, waits for a peer, starts a thread or reads a clock: time
// is an argument, seconds of any one clock. Whoever owns it must poll it, the
// oftener the sooner an operation is seen to be done; deadlines hold only as
// exactly as that.
//
// NCCL tells an error long after, or never when a peer just stops. So each
// operation has a deadline. When it passes, or an error comes, the communicator
// is aborted and all that was not done fails: NCCL has no way to end a single
// operation. Then the device may still touch memory for a moment (`stopping`).
//
// Operations run one after another, in the order of `submit`; all ranks must
// submit theirs in orders that fit. What must run at once goes into one.
//
// Not thread-safe: one owner. `ncclCommAbort` waits for NCCL's own threads, a
// matter of milliseconds as a rule. With an abort in the destructor nobody
// waits for the device; memory of operations under way must outlive it.

#include "messages/transport/nccl/device.hpp"
#include "messages/transport/nccl/operation.hpp"

#include <deque>
#include <limits>
#include <memory>
#include <vector>

namespace troupe::transport::nccl {

/// A rank's place in a communicator. All its ranks have the same id and size.
struct place {
  abi::unique_id id{};
  int rank = 0;
  int size = 1;
  int device = 0;
};

/// How long to wait for what, in s.
struct patience {
  double init = 30; ///< Until all ranks have come.
  double close = 5; ///< Until all have said goodbye.
  double quiet = 5; ///< Until the device lets go of memory after an abort.
};

/// Numbers the operations of a communicator: 1, 2, ...
using ticket = uint64_t;

/// A deadline that never passes.
inline constexpr double no_deadline = std::numeric_limits<double>::infinity();

class communicator {
public:
  enum class phase : uint8_t {
    initialising = 1, ///< The ranks are meeting.
    ready,            ///< Takes operations, as `initialising` does.
    closing,          ///< Says goodbye.
    closed,           ///< Over, and nothing was wrong. Final.
    stopping,         ///< Aborted; the device has not let go yet.
    failed            ///< Over; see `why`. Final.
  };

  /// Begins to meet the others. Failures show as phase.
  communicator(library_ptr lib, const place& where, const patience& limits,
               double now);

  /// Aborts unless it is over.
  ~communicator();

  communicator(const communicator&) = delete;
  communicator& operator=(const communicator&) = delete;

  // -- operations -------------------------------------------------------------

  /// Asks for transfers that run at once, to be done at `deadline`. They begin
  /// when what was submitted before is done, and what `after` holds at this
  /// moment: a stream of the same device that computes what is sent, or reads
  /// what is overwritten.
  /// With no transfers it only waits so. Throws std::invalid_argument for what
  /// cannot be: no such peer, no memory, a collective beside others.
  ticket submit(std::vector<transfer> transfers, double deadline,
                abi::stream after = nullptr);

  outcome look(ticket number) const;

  /// Operations done; they are done in order.
  ticket completed() const { return completed_; }

  // -- life -------------------------------------------------------------------

  /// Moves everything on as far as it goes. Does not wait.
  void poll(double now);

  /// Says goodbye when all operations are done; aborts when some are not.
  void close(double now);

  /// Aborts. What is not done fails for this reason.
  void stop(const std::string& reason, double now);

  phase state() const { return phase_; }

  /// True when it is over and nothing of it is left at work.
  bool settled() const {
    return phase_ == phase::closed || phase_ == phase::failed;
  }

  const std::string& why() const { return why_; }

private:
  struct operation {
    std::vector<transfer> transfers;
    double deadline = 0;
    std::unique_ptr<owned_event> after;
    bool issued = false;
    std::unique_ptr<owned_event> finish; ///< Comes behind it in the stream.
  };

  void check(const transfer& x) const;
  void begin(double now);
  void await_ready(double now);
  void advance(double now);
  bool free_to_call(double now);
  void mark_issued(double now);
  void collect_done(double now);
  void issue_next(double now);
  abi::result issue(const operation& what);
  abi::result issue(const transfer& what);
  abi::result reduce(const transfer& what);
  void watch_deadlines(double now);
  void await_goodbye(double now);
  void await_quiet(double now);
  void let_go();
  void abort_comm();
  std::string describe(const operation& what) const;

  library_ptr lib_;
  place where_;
  patience limits_;
  phase phase_ = phase::initialising;
  std::string why_;
  double phase_deadline_ = 0; ///< Of initialising, closing and stopping.
  bool lost_ = false;         ///< The device did not let go.
  bool issuing_ = false;      ///< The newest issued one is still on its way in.
  abi::comm comm_ = nullptr;
  std::unique_ptr<owned_stream> stream_;
  std::deque<operation> operations_; ///< Not done, the oldest first.
  ticket completed_ = 0;
};

std::string_view to_string(communicator::phase x);

} // namespace troupe::transport::nccl
