#pragma once
// The links of a worker or an evaluator to the servers that have parts of the
// weights: the lead, and for a worker the shards in processes of their own.
// Part of its session client's state; not thread-safe.

#include "actors/runtime/exchange_front.hpp"
#include "actors/worker/error_feedback.hpp"
#include "config/text/settings.hpp"
#include "config/values/address.hpp"
#include "messages/interfaces.hpp"
#include "messages/proto/hello.pb.h"
#include "messages/transport/compression/compression.hpp"
#include "messages/transport/wire/path.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

class server_links {
public:
  struct server {
    config::address at;
    framed_link_actor link; ///< Null until it is tied.
    std::string path;
    payload_shape weights;
    payload_shape activations;       ///< The largest of them; empty: none.
    std::vector<uint64_t> fragments; ///< Elements in each; or empty.
    transport::codec_ptr codec;      ///< Compresses gradients; or null.
    gradient_way way;                ///< On which gradients leave.
  };

  explicit server_links(caf::actor_system& system) : system_(system) {
    // nop
  }

  /// Adds a server: the lead first, then the shards by rank.
  void add(const config::address& at);

  void clear() { all_.clear(); }

  const std::vector<server>& all() const { return all_; }

  /// The index of the first server that is not tied yet.
  std::optional<size_t> next() const;

  /// Notes what a server's welcome says of its part. Throws `path_error`.
  void describe(size_t index, const proto::Welcome& welcome, bool is_worker);

  /// What a path to a server may carry, once all are added.
  /// @param overlap What a worker wants.
  transport::path_terms terms(size_t index, const proto::Welcome& welcome,
                              bool is_worker,
                              config::overlap_rule overlap) const;

  /// Makes the link over this path; null: over the actor connection.
  const framed_link_actor& tie(size_t index, const gateway_actor& gateway,
                               transport::path_ptr way);

  /// The numbers of each compressed part, if the codec leaves something out of
  /// them; else empty.
  std::vector<uint64_t> counts_with_feedback() const;

  /// Makes one link for all; the error feedback is for those that compress.
  /// @param exchange Of this node's GPU, if it has one with its shard; or null.
  parameter_server_actor join(const std::shared_ptr<error_feedback>& feedback,
                              const node_exchange& exchange);

  /// On which gradients leave for all: early for those that can take them so,
  /// from a GPU's memory if that suits all.
  gradient_way way_of_gradients(const node_exchange& exchange) const;

  /// "shm", or "shm+stream" where servers are reached by both.
  std::string paths() const;

private:
  std::vector<server> in_order() const;

  caf::actor_system& system_;
  std::vector<server> all_;
};

} // namespace troupe
