#pragma once
// From GPU to GPU: frames and headers use the socket, numbers that lie on the
// GPU go to that of the other end, in two groups of two ranks, one for each
// direction: pushes and answers cross. Before both ends have met, and for
// numbers in the host's memory, tensors use the socket too. When a group fails,
// the path ends. Owned by its path; threads as in tensor_carrier.hpp.

#include "messages/transport/nccl/gpu_network.hpp"
#include "messages/transport/stream/stream_carrier.hpp"

#include <mutex>

namespace troupe::transport {

struct pair_terms {
  gpu_network_ptr network;
  /// True: this end asks for the groups, and the other end makes the ids.
  /// False: it waits until it is asked.
  bool asks = false;
  group_patience patience{};
};

class pair_carrier final : public tensor_carrier {
public:
  pair_carrier(frame_line& line, const path_terms& terms, pair_terms with);

  ~pair_carrier() override;

  /// "stream" at an end that was not asked for NCCL.
  std::string_view name() const override;

  outgoing_tensor place(frame_head& head, const payload& tensor) override;

  incoming_tensor expect(const frame_head& head,
                         std::vector<descriptor>& files) override;

  bool intercept(frame& received) override;

  bool sends_from_device() const override { return true; }

  void end() override;

  /// Whether numbers of this GPU would go to the other one now.
  bool is_open() const;

private:
  struct groups {
    gpu_group_ptr leaving, coming;
  };

  void answer_call();
  void meet(const group_id& gradients, const group_id& weights);
  gpu_group_ptr open(const group_id& id, int rank);
  groups current() const;

  frame_line& line_;
  stream_carrier stream_;
  pair_terms with_;
  mutable std::mutex mutex_;
  bool ended_ = false;
  groups groups_;
};

} // namespace troupe::transport
