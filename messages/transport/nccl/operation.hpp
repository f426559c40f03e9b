#pragma once
// What can be asked of a communicator, and what became of it. Plain values.

#include "messages/transport/nccl/abi.hpp"

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

/// One movement of numbers in the memory of the communicator's device. Peer
/// and root are ranks. All who take part name the same count and type.
struct transfer {
  transfer_kind kind = transfer_kind::send;
  int peer = 0; ///< The other one, or the root.
  data_type type = data_type::float32;
  uint64_t count = 0;
  const void* from = nullptr;
  void* to = nullptr;
  double scale = 1; ///< Of what this rank gives to a sum.

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

/// The sum of everybody's numbers, each times the scale of its rank, in an
/// order that NCCL chooses, goes to the root. Only the root needs a `to`, which
/// may be its `from`.
inline transfer reduce_to(int root, const void* from, void* to, uint64_t count,
                          data_type type = data_type::float32,
                          double scale = 1) {
  return {transfer_kind::reduce, root, type, count, from, to, scale};
}

/// The root's numbers go to everybody, from and to the same memory.
inline transfer broadcast_from(int root, void* memory, uint64_t count,
                               data_type type = data_type::float32) {
  return {transfer_kind::broadcast, root, type, count, memory, memory};
}

/// "send of 45 MB to rank 1".
std::string to_string(const transfer& x);

/// How far an operation got. Until `done` or `failed` its memory belongs to the
/// device.
enum class progress : uint8_t {
  waiting = 1, ///< Not done, and nothing is wrong yet.
  done,        ///< All of it; on this side.
  stopping,    ///< It failed, and the device has not let go of the memory yet.
  failed,      ///< It failed; its targets hold anything.
  lost         ///< It failed, and the device does not let go: keep the memory.
};

std::string_view to_string(progress x);

/// The answer to "what became of it?".
struct outcome {
  progress what = progress::waiting;
  std::string why; ///< Of a failure: one line.
};

} // namespace troupe::transport::nccl
