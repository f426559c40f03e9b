#pragma once
// Sends numbers from the memory of this process's GPU to that of others', and
// adds them up on the way. All that other code sees of NCCL;
// models/device/nccl implements it. A process without a GPU, or a machine
// without NCCL, has none.
//
// Nobody waits on a device for numbers that may never come: a payload is handed
// out when it is there.
//
// Thread-safe; no call blocks. What is called back is called once, by the
// network's thread, which must not be held up.

#include "messages/payload.hpp"

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace troupe::transport {

/// The id of a group, as it is sent in messages.
using group_id = std::array<std::byte, 128>;

/// Told whether something has succeeded.
using success_told = std::function<void(bool)>;

/// Gets a payload on this process's GPU; none if that has failed.
using payload_taker = std::function<void(payload)>;

/// In what form numbers are added up.
enum class summed_as : uint8_t { themselves = 1, bfloat16, float16 };

/// What a rank adds to a sum: numbers, each times a share.
struct summand {
  payload numbers;
  double share = 1;
};

/// How numbers are divided among the ranks of a group.
struct gpu_cut {
  element_type type = element_type::float32;
  std::vector<uint64_t> counts; ///< By rank, in the order of the numbers.
};

/// How long to wait, in s.
struct group_patience {
  double meeting = 30;  ///< Until all have come.
  double transfer = 60; ///< For one transfer.
  double quiet = 5;     ///< Until the device lets go of memory, after an error.
};

/// One rank of a group whose members never change. Its transfers run one after
/// the other; all ranks ask for theirs in orders that match. Dropping it ends
/// it.
class gpu_group {
public:
  enum class phase : uint8_t { meeting = 1, open, over };

  virtual ~gpu_group() = default;

  virtual phase state() const = 0;

  /// Why it is over.
  virtual std::string why_over() const = 0;

  /// Sends numbers that lie on this GPU.
  virtual void send(int to, payload numbers, success_told done) = 0;

  virtual void receive(int from, payload_shape shape, payload_taker take) = 0;

  /// Adds up what all ranks have, in an order that nobody knows. Each rank gets
  /// its range of the sum. Summands have all numbers of the cut.
  virtual void sum(std::vector<summand> own, const gpu_cut& cut, summed_as form,
                   payload_taker take) = 0;

  /// Gives each rank the ranges of all, one after the other.
  virtual void gather(payload range, const gpu_cut& cut,
                      payload_taker take) = 0;

  /// Ends it: what is not done fails.
  virtual void end(const std::string& why) = 0;
};

/// Told when a group opens, and when it is over, with the reason. It must not
/// drop the group. Not called any more when the group is dropped.
using phase_told = std::function<void(gpu_group::phase, const std::string&)>;

using gpu_group_ptr = std::shared_ptr<gpu_group>;

class gpu_network {
public:
  virtual ~gpu_network() = default;

  /// N of `cuda:N`.
  virtual int device() const = 0;

  /// Which GPU that is, among those of all hosts.
  virtual const std::string& gpu() const = 0;

  /// The id of a new group. @throws run_error if NCCL cannot make one.
  virtual group_id make_id() = 0;

  /// Begins to join a group as one of its ranks. The network must outlive what
  /// is called back.
  virtual gpu_group_ptr open(const group_id& id, int rank, int size,
                             const group_patience& patience,
                             phase_told told) = 0;
};

using gpu_network_ptr = std::shared_ptr<gpu_network>;

} // namespace troupe::transport
