#pragma once
// The aggregation policy decides who waits for whom, and which gradients make a
// step.
//
// A policy is a pure state machine. It is told who joins, who leaves, which
// gradients arrive and which time limits of its own have passed, and answers
// with decisions. It holds no tensors, no actors, no clock and no randomness,
// so the same object serves production, simulation and property tests, and the
// same events always lead to the same decisions.
//
// Owned and called by the step scheduler of the lead shard; not thread-safe.

#include "config/text/call_schema.hpp"
#include "config/values/staleness_rule.hpp"
#include "messages/ids.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::policies {

/// What a policy is told about a gradient that arrived.
struct arrival {
  push_id id;
  version computed_on; ///< The weights that the worker read.
  uint64_t samples = 1;
};

/// A gradient that is part of a step.
struct part {
  push_id id;
  /// The weight of each of its samples in the mean, relative to the other
  /// gradients; 0 or more, not normalised. With 0 the gradient is dropped, and
  /// its samples are given back.
  double weight = 1;

  bool operator==(const part&) const = default;
};

/// One step: the mean of these gradients, summed in this order, makes the next
/// version.
struct update {
  std::vector<part> gradients;
  /// Factor of this step's learning rate. It scales the optimiser's result,
  /// after its moments, so that it means the same for all optimisers
  /// (staleness-aware steps: Zhang et al. 2016, "Staleness-aware Async-SGD",
  /// IJCAI, section 3.2).
  double rate_factor = 1;
  config::momentum_use momentum{};

  bool operator==(const update&) const = default;
};

/// What the server must do now, in the order of these members.
struct decision {
  /// Gradients that came too late: discard them and give their samples back.
  std::vector<push_id> drop;
  /// Steps to apply, each producing the next version.
  /// With several, only the last of their versions is scored, saved or given to
  /// workers.
  std::vector<update> updates;
  /// Workers that get the newest weights (after the updates) and continue.
  std::vector<worker_id> release;
  /// Workers whose current computation is useless: they stop and pull.
  std::vector<worker_id> cancel;
  /// A window begins: after so many seconds the policy is told by
  /// `on_window_over` that it has passed, unless a version was made meanwhile.
  std::optional<double> window;

  bool operator==(const decision&) const = default;
};

/// The rules of decision. A fix may change what is decided on the same events,
/// so the event log has the number of the rules: an older run is replayed by
/// the rules that it was made by.
///
///   1  of release 0.1.0
///   2  `backup` brings a worker that is late each time back into phase
///   3  a worker rests that was released, has not asked yet, and has lost its
///      only lease to another worker's gradient
inline constexpr uint32_t first_rules = 1;
inline constexpr uint32_t rules_in_phase = 2;
inline constexpr uint32_t rules_at_rest = 3;
inline constexpr uint32_t newest_rules = rules_at_rest;

/// Everything that is needed to make a policy.
struct policy_spec {
  std::string name = "sync";
  uint32_t workers = 1;           ///< N, the configured number of workers.
  config::arguments parameters{}; ///< Its own parameters, with defaults.
  uint32_t rules = newest_rules;  ///< Of decision.
  /// How gradients count that are stale (staleness_rule.hpp).
  config::staleness_rule staleness{};

  bool operator==(const policy_spec&) const = default;
};

/// Reads a policy that is written like `ssp(staleness=3)`. Throws `bad_value`
/// (config/text/value.hpp).
policy_spec read_spec(std::string_view text, uint32_t workers);

class policy {
public:
  virtual ~policy();

  /// Begins at version `v` with an empty cluster: at the start of a run, after
  /// a resume, or when the policy takes over from another at a fence.
  virtual void reset(version v) = 0;

  /// The version that the policy's decisions have reached so far.
  virtual version current() const = 0;

  /// The run has so many workers from now on, in a cluster whose number of
  /// workers varies: it takes the place of N. Told before `on_join` and
  /// `on_leave`, where it may be reached later.
  virtual void resize(uint32_t workers) { (void)workers; }

  /// Workers enter the cluster, in one go when training starts. Each is
  /// released now or by a later decision. Joining twice is a programming error.
  virtual decision on_join(std::span<const worker_id> who) = 0;

  /// A worker left (it ended, died or fell silent), or there is nothing left
  /// for it to compute; then it may join again. If the policy holds a
  /// gradient of it, that gradient stays valid and counts in its step. Unknown
  /// workers are ignored.
  virtual decision on_leave(worker_id who) = 0;

  /// A gradient of a released member has arrived. It has passed only the checks
  /// of size and finiteness; it may be late.
  virtual decision on_arrival(const arrival& push) = 0;

  /// A released member gives up its computation (cancelled, or its gradient was
  /// refused) and asks for the newest weights.
  virtual decision on_pull(worker_id who) = 0;

  /// The window has passed that a decision began at this version, which is
  /// still the newest.
  virtual decision on_window_over(version v) {
    (void)v;
    return {};
  }

  /// The workers that the others are waiting for, for the progress line; empty
  /// when nobody is held.
  virtual std::vector<worker_id> waiting_for() const = 0;

  /// The whole state as one line of text, `name key=value ...`
  /// (state_text.hpp): what checkpoints record, and what tests compare.
  virtual std::string state() const = 0;
};

/// Makes a policy, with the staleness rule of the spec. Throws `usage_error`
/// (config/text/failure.hpp) when the name is unknown (the line lists the known
/// ones) or it cannot have these parameters with so many workers.
std::unique_ptr<policy> make_policy(const policy_spec& spec);

} // namespace troupe::policies
