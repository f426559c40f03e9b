#pragma once
// Tensors of host memory over one NCCL communicator: what is sent is copied to
// the device, goes to the others' or is added up with theirs, and is copied
// into host memory there, one tensor after the other. All ranks ask in the same
// order. Between two there is a NCCL transfer for each direction, since the
// operations of a communicator run in one order, and pushes and answers cross.
//
// Thread-safe: any thread asks, one polls. Nobody waits for the device, but for
// copies of memory that CUDA has not been told of before.

#include "messages/payload.hpp"
#include "messages/transport/nccl/communicator.hpp"
#include "messages/transport/nccl/rendezvous.hpp"

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

namespace troupe::transport::nccl {

/// NCCL's name for the numbers of a payload; nothing for what it has none for.
std::optional<data_type> type_of(element_type x);

/// The same id, as NCCL takes it and as it travels.
abi::unique_id to_abi(const id_bytes& id);
id_bytes to_bytes(const abi::unique_id& id);

/// s between two looks at what is under way, ...
inline constexpr double pace = 50e-6;

/// ... at communicators that begin or end, ...
inline constexpr double slow_pace = 5e-3;

/// ... and at one that rests, whose errors nobody else notices.
inline constexpr double idle_pace = .5;

struct nccl_transfer_terms {
  id_bytes id{};
  int rank = 0;
  int size = 2;
  int device = 0;
  payload_shape largest; ///< What its memory on the device has room for.
  patience limits{};
  double transfer = 60; ///< s for one tensor.
};

/// Told, once, whether it was done. On the thread that asks, polls or destroys;
/// no lock of the NCCL transfer is held.
using transfer_done = std::function<void(bool)>;

class nccl_transfer {
public:
  /// The rank to which sums go, and from which broadcasts come.
  static constexpr int root = 0;

  /// Begins to meet the other ranks, who have the same id.
  nccl_transfer(library_ptr lib, const nccl_transfer_terms& terms, double now);

  /// Aborts what is under way. Memory of a device that has not let go of it is
  /// not given back.
  ~nccl_transfer();

  nccl_transfer(const nccl_transfer&) = delete;
  nccl_transfer& operator=(const nccl_transfer&) = delete;

  /// Does it take tensors of this shape now? Not before all are there.
  bool takes(const payload_shape& shape) const;

  // Targets must live until `done` was told. What is asked of a NCCL transfer
  // that has failed, or that does not take it, is told at once.

  void send(int to, payload tensor, transfer_done done);
  void receive(int from, std::span<std::byte> target, element_type type,
               transfer_done done);

  /// Gives a tensor, times `scale`, to a sum; the root takes it. With one other
  /// rank there is nothing to add up: its tensor comes as it is.
  void give(payload tensor, double scale, transfer_done done);
  void sum(std::span<std::byte> target, element_type type, transfer_done done);

  /// The root's tensor goes to all who hear.
  void tell(payload tensor, transfer_done done);
  void hear(std::span<std::byte> target, element_type type, transfer_done done);

  /// Moves everything on. True while there is something to wait for.
  bool poll(double now);

  /// Ends it: what is not done fails.
  void stop(const std::string& why, double now);

  /// Why it has ended; empty while it has not.
  std::string failure() const;

private:
  struct load {
    transfer_kind kind = transfer_kind::send;
    int peer = 0;   ///< Of a send or receive; others have the root.
    payload tensor; ///< That leaves; or
    std::span<std::byte> target; ///< where what comes goes.
    element_type type = element_type::float32;
    uint64_t count = 0;
    double scale = 1;
    transfer_done done;   ///< Or nobody.
    ticket number = 0;    ///< 0: not begun.
    bool landing = false; ///< It is on the device, and copied from there.
  };

  /// Those that are over, and how.
  using endings = std::deque<std::pair<load, bool>>;

  void leave(transfer_kind how, int peer, payload tensor, double scale,
             transfer_done done);
  void come(transfer_kind how, int peer, std::span<std::byte> target,
            element_type type, transfer_done done);
  void ask(load what);
  void move_on(double now, endings& over);
  bool device_is_done() const;
  void* take_memory();
  bool begin(load& what, double now);
  transfer way_of(const load& what) const;
  std::optional<bool> finish(load& what);
  bool fill_with_nothing();
  bool copy(void* to, const void* from, size_t bytes);
  void fail(const std::string& why, double now);

  library_ptr lib_;
  nccl_transfer_terms terms_;
  mutable std::mutex mutex_;
  communicator comm_;
  std::unique_ptr<owned_stream> copies_;
  void* staging_ = nullptr; ///< On the device.
  void* nothing_ = nullptr; ///< There, too: what the root gives to a sum.
  std::deque<load> loads_;  ///< The oldest is under way.
  ticket last_ = 0;         ///< That was begun.
  std::string failure_;
};

} // namespace troupe::transport::nccl
