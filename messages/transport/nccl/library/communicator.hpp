#pragma once
// One rank's end of one NCCL communicator, with a CUDA stream of its own, as a
// state machine that is polled:
//
//   initialising -> ready -> closing -> closed
//        \____________\________\_____-> stopping -> failed
//
// Nothing here sleeps, waits for a peer, starts a thread or reads a clock: time
// is an argument, in seconds of any one clock. The owner must poll it; the more
// often, the sooner a finished operation is noticed. Deadlines are only as
// exact as that.
//
// NCCL reports an error long after it happened, or never when a peer just
// stops. So each operation has a deadline. When it passes, or an error occurs,
// the communicator is aborted and all unfinished operations fail: NCCL cannot
// end a single operation. The device may still use the memory for a moment then
// (`stopping`).
//
// Operations run one after another, in the order of `submit`; all ranks must
// submit theirs in matching orders. Transfers that must run at the same time go
// into one operation.
//
// Not thread-safe: one owner (nccl_transfer). `ncclCommAbort` waits for NCCL's
// own threads, usually for milliseconds. The destructor aborts without waiting
// for the device; memory of unfinished operations must outlive it.

#include "messages/transport/nccl/library/device.hpp"
#include "messages/transport/nccl/library/operation.hpp"

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

/// How long to wait, in s.
struct patience {
  double init = 30; ///< Until all ranks have joined.
  double close = 5; ///< Until all ranks have closed.
  double quiet = 5; ///< Until the device stops using memory after an abort.
};

/// Numbers the operations of a communicator: 1, 2, ...
using ticket = uint64_t;

/// A deadline that never passes.
inline constexpr double no_deadline = std::numeric_limits<double>::infinity();

class communicator {
public:
  enum class phase : uint8_t {
    initialising = 1, ///< The ranks are joining.
    ready,            ///< Takes operations, as `initialising` does.
    closing,          ///< Waits for the others to close.
    closed,           ///< Ended without an error. Final.
    stopping,         ///< Aborted; the device may still use memory.
    failed            ///< Ended by an error; see `why`. Final.
  };

  /// Begins to join the other ranks. Failures show in `state`.
  communicator(library_ptr lib, const place& where, const patience& limits,
               double now);

  /// Aborts unless it has ended.
  ~communicator();

  communicator(const communicator&) = delete;
  communicator& operator=(const communicator&) = delete;

  // -- operations -------------------------------------------------------------

  /// Asks for transfers that run at the same time, to be done at `deadline`.
  /// They begin when earlier operations are done, and when the work that is now
  /// in the stream `after` is done: a stream of the same device that computes
  /// what is sent or reads what is overwritten. Without transfers the operation
  /// only waits for these. Throws std::invalid_argument for a peer that does
  /// not exist, missing memory, or a collective together with other transfers.
  ticket submit(std::vector<transfer> transfers, double deadline,
                abi::stream after = nullptr);

  outcome look(ticket number) const;

  /// The number of operations done; they are done in order.
  ticket completed() const { return completed_; }

  // -- life -------------------------------------------------------------------

  /// Makes all progress that is possible without blocking.
  void poll(double now);

  /// Closes when all operations are done; aborts when some are not.
  void close(double now);

  /// Aborts. Unfinished operations fail for this reason.
  void stop(const std::string& reason, double now);

  phase state() const { return phase_; }

  /// True when it has ended and nothing of it is still running.
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
    std::unique_ptr<owned_event> finish; ///< Recorded after it in the stream.
  };

  void check(const transfer& x) const;
  void begin(double now);
  void await_ready(double now);
  void advance(double now);
  bool free_to_call(double now);
  void mark_issued(double now);
  void collect_done(double now);
  void issue_next(double now);
  abi::result issue(const operation& action);
  abi::result issue(const transfer& job);
  abi::result reduce(const transfer& job);
  void watch_deadlines(double now);
  void await_goodbye(double now);
  void await_quiet(double now);
  void let_go();
  void abort_comm();
  std::string describe(const operation& action) const;

  library_ptr lib_;
  place where_;
  patience limits_;
  phase phase_ = phase::initialising;
  std::string why_;
  double phase_deadline_ = 0; ///< For initialising, closing and stopping.
  bool lost_ = false;         ///< The device never stopped using memory.
  bool issuing_ = false;      ///< The newest one is still being issued.
  abi::comm comm_ = nullptr;
  std::unique_ptr<owned_stream> stream_;
  std::deque<operation> operations_; ///< Unfinished, oldest first.
  ticket completed_ = 0;
};

std::string_view to_string(communicator::phase x);

} // namespace troupe::transport::nccl
