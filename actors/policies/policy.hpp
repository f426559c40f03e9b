#pragma once
// The aggregation policy: who waits for whom, and which gradients make a step.
//
// A policy is a pure state machine. It sees who joins, who leaves and which
// gradients arrive, and answers with decisions. It holds no tensors, no actors,
// no clock and no randomness; the same object serves production, simulation
// and property tests. What it decides follows from what it was told alone, so
// that the same events make the same decisions again.
//
// Not thread-safe; one owner (the lead parameter server shard) calls it.

#include "config/text/call_schema.hpp"
#include "messages/ids.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::policies {

/// What a policy is told about a gradient that arrived.
struct arrival {
  push_id id;
  version computed_on; ///< The weights that the worker read.
};

/// A gradient of a step.
struct part {
  push_id id;
  /// What each of its samples counts in the mean beside those of the others,
  /// 0 or more; weights need no sum. With 0 the gradient is dropped, and its
  /// samples go back.
  double weight = 1;

  bool operator==(const part&) const = default;
};

/// One step: the mean of these gradients, summed in this order, makes the next
/// version.
struct update {
  std::vector<part> gradients;
  /// Of this step's learning rate. It applies to what the optimiser has made of
  /// the mean, behind its moments, so that it means the same for all of them
  /// (staleness-aware steps: Zhang et al. 2016, "Staleness-aware Async-SGD",
  /// IJCAI, section 3.2).
  double rate_factor = 1;

  bool operator==(const update&) const = default;
};

/// What the server must do now, in the order of the members.
struct decision {
  /// Gradients that came too late: forget them, their samples go back.
  std::vector<push_id> drop;
  /// Steps to apply, each producing the next version.
  std::vector<update> updates;
  /// Workers that get the newest weights (after the updates) and go on.
  std::vector<worker_id> release;
  /// Workers whose computation is of no use any more: they stop and pull.
  std::vector<worker_id> cancel;

  bool operator==(const decision&) const = default;
};

/// Everything that is needed to make a policy.
struct policy_spec {
  std::string name = "sync";
  uint32_t workers = 1; ///< N, the number of workers that the run is to have.
  config::arguments parameters{}; ///< Its own, defaults included.

  bool operator==(const policy_spec&) const = default;
};

/// Reads what is written like `ssp(staleness=3)`. Throws `bad_value`
/// (config/value.hpp).
policy_spec read_spec(std::string_view text, uint32_t workers);

class policy {
public:
  virtual ~policy();

  /// Begins at version `v` with an empty cluster: at the start of a run, after
  /// a resume, or when the policy takes over from another at a fence.
  virtual void reset(version v) = 0;

  /// The version that the policy's decisions have reached so far.
  virtual version current() const = 0;

  /// Workers enter the cluster, in one go when training starts. Each is
  /// released now or by a later decision. Joining twice is a programming error.
  virtual decision on_join(std::span<const worker_id> who) = 0;

  /// A worker left (it ended, died or was silent). A gradient of its that was
  /// held stays valid and counts in its step. Unknown workers are ignored.
  virtual decision on_leave(worker_id who) = 0;

  /// A gradient of a member that was released has arrived. Only the size and
  /// finiteness checks came before: it may be late.
  virtual decision on_arrival(const arrival& what) = 0;

  /// A member that was released gives up its computation (cancelled, or its
  /// gradient was refused) and asks for the newest weights.
  virtual decision on_pull(worker_id who) = 0;

  /// The workers that the cluster waits for at the moment, for the progress
  /// line; empty when nobody is held.
  virtual std::vector<worker_id> waiting_for() const = 0;

  /// The whole state as one line of text, `name key=value ...`
  /// (state_text.hpp): what checkpoints record, and what tests compare.
  virtual std::string state() const = 0;
};

/// Makes a policy. Throws `usage_error` (config/failure.hpp) when the name is
/// unknown (the line lists the known ones) or it cannot have these parameters
/// with so many workers.
std::unique_ptr<policy> make_policy(const policy_spec& spec);

} // namespace troupe::policies
