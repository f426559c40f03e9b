#pragma once
// What can be submitted to a communicator, and its result. Plain values.

#include "messages/transport/nccl/library/abi.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace troupe::transport::nccl {

/// What the numbers of a tensor are.
using abi::data_type;

constexpr uint64_t size_of(data_type type) {
  switch (type) {
  case data_type::float64:
    return 8;
  case data_type::float32:
    return 4;
  default:
    return 2;
  }
}

enum class transfer_kind : uint8_t { send = 1, receive, reduce, broadcast };

/// One transfer between memory of the ranks' devices. Peer and root are ranks.
/// All participants name the same count and type.
struct transfer {
  transfer_kind kind = transfer_kind::send;
  int peer = 0; ///< The other rank, or the root.
  data_type type = data_type::float32;
  uint64_t count = 0;
  const void* from = nullptr;
  void* to = nullptr;
  double scale = 1; ///< Factor for what this rank adds to a sum.

  uint64_t bytes() const { return count * size_of(type); }
};

inline transfer send_to(int peer, const void* from, uint64_t count,
                        data_type type = data_type::float32) {
  return {transfer_kind::send, peer, type, count, from, nullptr};
}

inline transfer receive_from(int peer, void* to, uint64_t count,
                             data_type type = data_type::float32) {
  return {transfer_kind::receive, peer, type, count, nullptr, to};
}

/// Sums the numbers of all ranks, each times its rank's scale, in an order that
/// NCCL chooses; the root receives the sum. Only the root needs `to`, which may
/// equal its `from`.
inline transfer reduce_to(int root, const void* from, void* to, uint64_t count,
                          data_type type = data_type::float32,
                          double scale = 1) {
  return {transfer_kind::reduce, root, type, count, from, to, scale};
}

/// Sends the root's numbers to all ranks, from and to the same memory.
inline transfer broadcast_from(int root, void* memory, uint64_t count,
                               data_type type = data_type::float32) {
  return {transfer_kind::broadcast, root, type, count, memory, memory};
}

/// "send of 45 MB to rank 1".
std::string to_string(const transfer& x);

/// The state of an operation. Its memory belongs to the device until the state
/// is `done` or `failed`.
enum class progress : uint8_t {
  waiting = 1, ///< Not done, and nothing is wrong yet.
  done,        ///< Complete at this rank.
  stopping,    ///< Failed; the device may still use the memory.
  failed,      ///< Failed; its targets hold arbitrary bytes.
  lost         ///< Failed; never free the memory: the device uses it.
};

std::string_view to_string(progress x);

/// The state of an operation, and the reason if it failed.
struct outcome {
  progress what = progress::waiting;
  std::string why; ///< Of a failure: one line.
};

} // namespace troupe::transport::nccl
