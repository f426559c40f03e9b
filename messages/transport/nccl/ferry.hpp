#pragma once
// Tensors of host memory over NCCL from one process to another: one direction,
// on a communicator of the two. What is sent is copied to the device, goes to
// the other end's, and is copied into host memory there, one tensor after the
// other. Each direction has a ferry of its own, since the operations of a
// communicator run in one order, and pushes and answers cross.
//
// Thread-safe: one thread sends or receives, another polls. Neither waits for
// the device, but for copies of memory that CUDA has not been told of before.

#include "messages/arrival.hpp"
#include "messages/payload.hpp"
#include "messages/transport/nccl/communicator.hpp"
#include "messages/transport/nccl/rendezvous.hpp"

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

namespace troupe::transport::nccl {

/// NCCL's name for the numbers of a payload; nothing for what it has none for.
std::optional<data_type> type_of(element_type x);

struct ferry_terms {
  id_bytes id{};
  bool sends = true; ///< Else it receives.
  int device = 0;
  payload_shape largest; ///< What its memory on the device has room for.
  patience limits{};
  double transfer = 60; ///< s for one tensor.
};

class ferry {
public:
  /// Begins to meet the other end, who has the same id.
  ferry(library_ptr lib, const ferry_terms& terms, double now);

  /// Aborts what is under way. Memory of a device that has not let go of it is
  /// not given back.
  ~ferry();

  ferry(const ferry&) = delete;
  ferry& operator=(const ferry&) = delete;

  /// Does it take tensors of this shape now? Not before the other end is there.
  bool takes(const payload_shape& shape) const;

  /// Sends a tensor; the other end receives in the same order.
  /// @pre takes(tensor.shape())
  void send(payload tensor);

  /// Receives a tensor into `target`; `done` says when it is there, or that it
  /// will not be. `target` must live until then.
  void receive(std::span<std::byte> target, element_type type,
               arrival_ptr done);

  /// Moves everything on. True while there is something to wait for.
  bool poll(double now);

  /// Ends it: what is not done fails.
  void stop(const std::string& why, double now);

  /// Why it has ended; empty while it has not.
  std::string failure() const;

private:
  struct load {
    payload tensor;              ///< That is sent; or
    std::span<std::byte> target; ///< where what is received goes,
    arrival_ptr done;            ///< and who is told.
    data_type type = data_type::float32;
    uint64_t count = 0;
    ticket number = 0;    ///< 0: not begun.
    bool landing = false; ///< It is on the device, and copied from there.
  };

  bool device_is_done() const;
  void take_memory();
  void begin(load& what, double now);
  bool finish(load& what);
  bool copy(void* to, const void* from, size_t bytes);
  void fail(const std::string& why, double now);

  library_ptr lib_;
  ferry_terms terms_;
  mutable std::mutex mutex_;
  communicator comm_;
  std::unique_ptr<owned_stream> copies_;
  void* staging_ = nullptr; ///< On the device.
  std::deque<load> loads_;  ///< The oldest is under way.
  ticket last_ = 0;         ///< That was begun.
  std::string failure_;
};

} // namespace troupe::transport::nccl
