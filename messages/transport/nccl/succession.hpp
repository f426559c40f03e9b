#pragma once
// The communicators of one rank, one after another: each membership (epoch) has
// its own. A new one aborts the one before; what was asked of that and was not
// done has failed, and the caller takes the stream for that step.
//
// Aborted communicators are kept until the device has let go of the memory.
// Polled like a communicator; not thread-safe.

#include "messages/transport/nccl/communicator.hpp"
#include "messages/transport/nccl/rendezvous.hpp"

namespace troupe::transport::nccl {

/// An operation and the membership that it was made for.
struct epoch_ticket {
  epoch number;
  ticket operation = 0; ///< 0: it came too late.
};

class succession {
public:
  succession(library_ptr lib, const patience& limits)
    : lib_(std::move(lib)), limits_(limits) {
    // nop
  }

  /// Ends the one before and begins the next. False, and nothing happens, when
  /// this or a later one was there already: the call came late.
  bool begin(epoch number, const id_bytes& id, int rank, int size, int device,
             double now);

  /// Ends the epoch, if it is the current one.
  void end(epoch number, const std::string& why, double now);

  /// Asks the epoch's communicator; of an older epoch it fails at once, which
  /// `look` tells. Otherwise as communicator::submit.
  epoch_ticket submit(epoch number, std::vector<transfer> transfers,
                      double deadline, abi::stream after = nullptr);

  outcome look(const epoch_ticket& x) const;

  void poll(double now);

  /// The newest epoch; 0 before the first.
  epoch current() const { return current_; }

  /// True when the epoch's communicator takes operations that can be done.
  bool ready(epoch number) const;

  /// Why the epoch's communicator has failed; empty when it has not.
  std::string failure(epoch number) const;

  /// True when nothing of earlier epochs, or of an ended one, is left at work.
  bool settled() const;

private:
  struct era {
    epoch number;
    std::unique_ptr<communicator> comm;
    ticket submitted = 0;
    bool over = false;
  };

  const era* find(epoch number) const;

  library_ptr lib_;
  patience limits_;
  epoch current_;
  std::deque<era> eras_; ///< The newest last.
};

/// The same id, as NCCL takes it and as it travels.
abi::unique_id to_abi(const id_bytes& id);
id_bytes to_bytes(const abi::unique_id& id);

} // namespace troupe::transport::nccl
