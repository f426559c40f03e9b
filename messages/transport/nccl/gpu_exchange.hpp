#pragma once
// Where the shard and the worker of one node of a run of peers meet, if each
// node has a GPU: the worker leaves its gradients here, the shard adds them up
// with those of the other nodes and gathers the weights of its steps, and the
// worker takes these from here. Nothing passes the host's memory.
//
// A sum counts for all nodes or for none: if it fails, here or elsewhere, the
// life of the run ends (docs/design/0035-nccl-from-device-memory.md).
//
// Thread-safe; no call blocks. What is called back is called once, on any
// thread, which must not be held up.

#include "messages/ids.hpp"
#include "messages/transport/nccl/gpu_network.hpp"

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace troupe::transport {

/// A place among all nodes of a life of the run.
struct exchange_terms {
  group_id id{};
  int rank = 0; ///< In the order of the shards' ranges.
  gpu_cut cut;  ///< The ranges of all.
  summed_as form = summed_as::themselves;
  group_patience patience{};
};

class gpu_exchange : public std::enable_shared_from_this<gpu_exchange> {
public:
  /// Told once when all nodes have met (empty), or when the exchange is over,
  /// with the reason.
  using news_taker = std::function<void(const std::string& why_over)>;

  explicit gpu_exchange(gpu_network_ptr network)
    : network_(std::move(network)) {
    // nop
  }

  ~gpu_exchange();

  gpu_exchange(const gpu_exchange&) = delete;
  gpu_exchange& operator=(const gpu_exchange&) = delete;

  group_id make_id() { return network_->make_id(); }

  /// Begins to meet the others; once.
  void open(const exchange_terms& terms, news_taker told);

  /// Whether all have met, and nothing has failed.
  bool is_open() const;

  /// Why it is over; empty while it is not.
  std::string why_over() const;

  /// What is under way fails. To be called when another node is lost: it may be
  /// waited for in vain.
  void end(const std::string& why);

  // -- by the worker ----------------------------------------------------------

  /// Leaves a gradient, which lies on the GPU, until it is in a sum or dropped.
  void offer(const push_id& id, payload gradient);

  /// Gives all weights of a version of which the shard has gathered, or
  /// will gather, the ranges; none if that fails, or another asks meanwhile.
  void await_weights(version of, payload_taker take);

  // -- by the shard -----------------------------------------------------------

  /// Adds up the gradients with these ids, of all nodes, each times its share;
  /// gives this node's range.
  void sum(std::span<const push_id> ids, std::span<const double> shares,
           payload_taker take);

  /// No sum will have these gradients.
  void drop(std::span<const push_id> ids);

  /// Has the worker get all weights of this version.
  /// @param range This node's.
  void gather(version of, payload range);

private:
  gpu_group_ptr group() const;
  void gathered(version of, payload all);

  gpu_network_ptr network_;
  mutable std::mutex mutex_;
  exchange_terms terms_;
  gpu_group_ptr group_;
  std::map<push_id, payload> offered_; ///< By the workers of this node.
  version newest_;                     ///< That was gathered.
  payload weights_;
  std::optional<std::pair<version, payload_taker>> waiting_;
  bool failed_ = false;
};

using gpu_exchange_ptr = std::shared_ptr<gpu_exchange>;

} // namespace troupe::transport
