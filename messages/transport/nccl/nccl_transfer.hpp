#pragma once
// Sends tensors of host memory over one NCCL communicator: each is copied to
// the device, sent to the other rank or summed with the others' tensors, and
// copied into host memory there, one tensor after the other. All ranks submit
// in the same order. Two ends use one transfer for each direction, because the
// operations of a communicator run in one order while pushes and answers cross.
//
// Made by a transfer_set, for a carrier or the collective coordinator.
// Thread-safe: any thread submits, one polls. No call waits for the device,
// except for copies from memory that is not registered with CUDA.

#include "messages/payload.hpp"
#include "messages/transport/nccl/library/communicator.hpp"
#include "messages/transport/nccl/rendezvous.hpp"

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

namespace troupe::transport::nccl {

/// NCCL's type for the numbers of a payload; nothing if it has none.
std::optional<data_type> type_of(element_type x);

/// Converts an id between NCCL's form and the form of our messages.
abi::unique_id to_abi(const id_bytes& id);
id_bytes to_bytes(const abi::unique_id& id);

/// s between two polls of a running transfer, ...
inline constexpr double pace = 50e-6;

/// ... of a communicator that begins or ends, ...
inline constexpr double slow_pace = 5e-3;

/// ... and of an idle one, whose errors nothing else would notice.
inline constexpr double idle_pace = .5;

struct nccl_transfer_terms {
  id_bytes id{};
  int rank = 0;
  int size = 2;
  int device = 0;
  payload_shape largest; ///< The largest tensor; sizes the device memory.
  patience limits{};
  double transfer = 60; ///< s for one tensor.
};

/// Called once, with true if the transfer succeeded; by the thread that
/// submits, polls or destroys, with no lock of the transfer held.
using transfer_done = std::function<void(bool)>;

class nccl_transfer {
public:
  /// The rank to which sums go, and from which broadcasts come.
  static constexpr int root = 0;

  /// Begins to join the other ranks, which have the same id.
  nccl_transfer(library_ptr lib, const nccl_transfer_terms& terms, double now);

  /// Aborts running transfers. Device memory that the device may still use is
  /// not freed.
  ~nccl_transfer();

  nccl_transfer(const nccl_transfer&) = delete;
  nccl_transfer& operator=(const nccl_transfer&) = delete;

  /// Can tensors of this shape be sent now? Not before all ranks have joined.
  bool takes(const payload_shape& shape) const;

  // Targets must live until `done` was called. A transfer submitted after a
  // failure, or that is not possible, calls `done` at once.

  void send(int to, payload tensor, transfer_done done);
  void receive(int from, std::span<std::byte> target, element_type type,
               transfer_done done);

  /// Adds a tensor, times `scale`, to a sum, which the root receives with
  /// `sum`. With only one other rank nothing is added: its tensor arrives as it
  /// is.
  void give(payload tensor, double scale, transfer_done done);
  void sum(std::span<std::byte> target, element_type type, transfer_done done);

  /// Broadcasts the root's tensor to all ranks that call `hear`.
  void tell(payload tensor, transfer_done done);
  void hear(std::span<std::byte> target, element_type type, transfer_done done);

  /// Makes all possible progress. True while there is something to wait for.
  bool poll(double now);

  /// Ends the communicator: unfinished transfers fail.
  void stop(const std::string& why, double now);

  /// Why the communicator has ended; empty as long as it has not.
  std::string failure() const;

private:
  struct load {
    transfer_kind kind = transfer_kind::send;
    int peer = 0;                ///< For send and receive; others use the root.
    payload tensor;              ///< The tensor to send; or
    std::span<std::byte> target; ///< where to receive.
    element_type type = element_type::float32;
    uint64_t count = 0;
    double scale = 1;
    transfer_done done;   ///< May be empty.
    ticket number = 0;    ///< 0: not begun.
    bool landing = false; ///< On the device; being copied to the host.
  };

  /// Transfers that have ended, and whether they succeeded.
  using endings = std::deque<std::pair<load, bool>>;

  void leave(transfer_kind how, int peer, payload tensor, double scale,
             transfer_done done);
  void come(transfer_kind how, int peer, std::span<std::byte> target,
            element_type type, transfer_done done);
  void ask(load request);
  void move_on(double now, endings& over);
  bool device_is_done() const;
  void* take_memory();
  bool begin(load& request, double now);
  transfer way_of(const load& request) const;
  std::optional<bool> finish(load& request);
  bool fill_with_nothing();
  bool copy(void* to, const void* from, size_t bytes);
  void fail(const std::string& why, double now);

  library_ptr lib_;
  nccl_transfer_terms terms_;
  mutable std::mutex mutex_;
  communicator comm_;
  std::unique_ptr<owned_stream> copies_;
  void* staging_ = nullptr; ///< On the device.
  void* nothing_ = nullptr; ///< On the device: what the root adds to a sum.
  std::deque<load> loads_;  ///< The oldest is running.
  ticket last_ = 0;         ///< The last one begun.
  std::string failure_;
};

} // namespace troupe::transport::nccl
