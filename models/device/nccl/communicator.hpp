#pragma once
// One rank's end of one NCCL communicator, with a stream of its own, as a state
// machine that is polled by the thread of its device:
//
//   meeting -> open -> (ended by `stop`) stopping -> gone
//
// Nothing here sleeps, waits for a peer, starts a thread or reads a clock: time
// is an argument, in seconds of any one clock. One transfer runs at a time, so
// that nothing is ever enqueued behind one that may never be over.
//
// NCCL reports an error long after it happened, or never when a peer just
// stops. So each transfer has a deadline. When that passes, or an error occurs,
// the communicator is aborted and all that is not done fails: NCCL cannot end a
// single transfer. The device may still use the memory for a moment then
// (`stopping`); what it never lets go of is kept for good.
//
// Not thread-safe: the network's thread only.

#include "messages/transport/nccl/gpu_network.hpp"
#include "models/device/nccl/library.hpp"

#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <deque>
#include <optional>
#include <vector>

namespace troupe::models::nccl {

/// A rank's place in a communicator. All its ranks have the same id and size.
struct place {
  unique_id id{};
  int rank = 0;
  int size = 1;
  c10::Device device;
};

/// Something to do with a communicator. Its functions are called with the
/// communicator's stream as the current one, and may throw c10::Error.
struct transfer {
  std::string name; ///< "send of 45 MB to rank 1".
  std::function<result(comm, stream)> begin;
  /// Called when it is over; false: it has failed, and its memory is not to be
  /// used yet.
  std::function<void(bool)> finish;
};

class communicator {
public:
  enum class phase : uint8_t { meeting = 1, open, stopping, gone };

  /// Begins to join the other ranks. Failures show in `state`.
  communicator(library_ptr lib, const place& where,
               const transport::group_patience& patience, double now);

  /// Aborts unless it has ended.
  ~communicator();

  communicator(const communicator&) = delete;
  communicator& operator=(const communicator&) = delete;

  /// Asks for a transfer; one after the end fails.
  void ask(transfer job);

  /// Calls `finish` of transfers that have failed.
  void tell_failures();

  /// Makes all progress that is possible now. Returns in how many seconds to
  /// call again.
  double poll(double now);

  /// Aborts: what is not done fails (`tell_failures`).
  void stop(const std::string& why, double now);

  phase state() const { return phase_; }

  const std::string& why() const { return why_; }

private:
  double pace() const;
  void move_on(double now);
  bool free_to_call(double now);
  void begin_next(double now);
  bool is_current_over();
  void watch(double now);
  void await_quiet(double now);
  void give_up();

  library_ptr lib_;
  place where_;
  transport::group_patience patience_;
  phase phase_ = phase::meeting;
  std::string why_;
  double deadline_; ///< Of the meeting, the current transfer or the stopping.
  comm comm_ = nullptr;
  c10::Stream stream_;
  std::deque<transfer> asked_;     ///< The first one is the current one.
  bool begun_ = false;             ///< The current one.
  std::optional<c10::Event> over_; ///< Behind the current one.
  std::vector<std::function<void(bool)>> failures_; ///< To be told.
};

} // namespace troupe::models::nccl
