#pragma once
// The aggregation policy: who waits for whom, and which gradients make a step.
//
// A policy is a pure state machine. It sees who joins, who leaves and which
// gradients arrive, and answers with decisions. It holds no tensors, no actors,
// no clock and no randomness; the same object serves production, simulation
// and property tests. It is a value: it can be cloned, printed, saved and
// replaced at a version fence.
//
// Not thread-safe; one owner (the lead parameter server shard) calls it.

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

/// One step: these gradients, summed in this order, make the next version.
using update = std::vector<push_id>;

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

/// What became of late gradients under the backup-worker policy.
enum class late_rule : uint8_t { drop, cancel };

/// Everything that is needed to make a policy; what a checkpoint stores of it.
struct policy_spec {
  std::string name = "sync";   ///< sync | backup | ssp | async
  uint32_t workers = 1;        ///< N, the configured size of the cast.
  uint32_t backup_workers = 1; ///< b of `backup`; 0 <= b < N.
  late_rule late = late_rule::drop;
  uint32_t staleness = 3; ///< s of `ssp`, in clocks.

  bool operator==(const policy_spec&) const = default;
};

class policy {
public:
  virtual ~policy();

  /// The name in the registry, as in `--policy`.
  virtual std::string_view name() const = 0;

  virtual std::unique_ptr<policy> clone() const = 0;

  /// Begins at version `v` with an empty cast: at the start of a run, after a
  /// resume, or when the policy takes over from another at a fence.
  virtual void reset(version v) = 0;

  /// The version that the policy's decisions have reached so far.
  virtual version current() const = 0;

  /// Workers enter the cast, in one go when training starts. Each is released
  /// now or by a later decision. Joining twice is a programming error.
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

  /// The workers that the cast waits for at the moment, for the progress line;
  /// empty when nobody is held.
  virtual std::vector<worker_id> waiting_for() const = 0;

  /// Upper bound of the staleness (in updates) of an applied gradient with
  /// `members` in the cast, or UINT64_MAX when there is none.
  virtual uint64_t staleness_bound(uint32_t members) const = 0;

  /// One line for logs and tests, for example `ssp(s=3) v=12 clocks=[4,5]`.
  virtual std::string describe() const = 0;

  /// The whole state as one line of text; `load` takes it back (false when
  /// the text is not one of this policy).
  virtual std::string save() const = 0;
  virtual bool load(std::string_view text) = 0;
};

/// Makes a policy. Throws `usage_error` (config/failure.hpp) when the name is
/// unknown (the line lists the known ones) or a parameter is out of range.
std::unique_ptr<policy> make_policy(const policy_spec& spec);

/// Names of all policies, in the order of the documentation.
std::vector<std::string_view> policy_names();

} // namespace troupe::policies
