#pragma once
// How many bytes of tensors go between nodes for a step, by the rank of the
// worker: gradients on their way to shards, and weights on their way back. With
// peers a node is a worker and the shard beside it, and what stays on the node
// does not count; so each sends and receives 2(n-1)/n of the weights. In other
// clusters a node is a worker. A subscriber of the server's events: what each
// worker pushes and gets is known from them, and all shards get and give their
// ranges of it.
//
// Owned by the parameter server and called on its thread; not thread-safe.

#include "actors/events/event.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace troupe {

/// How the weights lie on the nodes.
struct node_bytes {
  uint64_t whole = 0; ///< Of a version of the weights.
  uint64_t lead = 0;  ///< Of these, those that the lead has.
  /// Of these, those that the shard beside each worker has, by rank; empty: no
  /// worker has a shard beside it.
  std::vector<uint64_t> beside{};
  /// Those of each fragment, where workers get one at a time.
  std::vector<uint64_t> fragments{};
  /// Of these, those that the lead has, where it does not have all.
  std::vector<uint64_t> lead_fragments{};
};

class node_traffic final : public event_subscriber {
public:
  /// @param workers The configured size of the cluster; more may join.
  node_traffic(node_bytes weights, uint32_t workers);

  void on_event(const event& entry) override;

  /// Bytes of each node, since the server began.
  struct bytes_per_step {
    std::vector<double> sent;
    std::vector<double> received;
  };

  /// Nothing before the first step.
  std::optional<bytes_per_step> per_step() const;

private:
  struct worker_bytes {
    double pushed = 0; ///< To all shards together.
    double got = 0;    ///< From all shards together.
    size_t pushes = 0; ///< The fragment of its next gradient.
  };

  worker_bytes& of(worker_id who);
  double weights_for(const cores::fragment_turn& turn) const;
  double all_of(const inputs::arrived& push);

  node_bytes weights_;
  std::vector<worker_bytes> workers_;
  double sent_share_ = 1; ///< Of a gradient's bytes, where it is compressed.
  std::optional<version> first_;
  version newest_;
};

} // namespace troupe
