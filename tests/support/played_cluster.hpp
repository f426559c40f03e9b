#pragma once
// A cluster without actors for a step scheduler: plays the workers and the
// tensor half of the parameter server, and checks every order against what
// actors/core/step_scheduler.hpp promises. A violation throws
// `std::logic_error` with the policy's state. Not thread-safe.

#include "actors/core/step_scheduler.hpp"

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace troupe::test {

class played_cluster {
public:
  played_cluster(const policies::policy_spec& spec, uint64_t samples,
                 uint64_t batch, const cores::stop_limits& limits = {});
  explicit played_cluster(cores::step_scheduler scheduler, uint64_t samples);

  /// How many leases workers ask for when they enlist. With more than usual,
  /// their gradients cover one lease or several.
  uint32_t ahead = cores::leases_ahead;

  /// Whether the policy gives gradients of a step the weight 0 instead of
  /// dropping them: such a gradient is late by that step, too.
  bool drops_within_steps = false;

  /// Makes the number of workers vary. What waited in a pause is decided on in
  /// one go: a gradient may be late by a step of the same orders.
  void vary_members(const cores::varying_members& limits) {
    fewest_ = limits.fewest;
    scheduler_.vary_members(limits);
  }

  // -- what workers do --------------------------------------------------------

  /// A new life of the worker; it asks for its first weights in `pull`.
  void enlist(worker_id who);
  void join(const std::vector<worker_id>& who);
  void leave(worker_id who);

  /// A worker that has nothing to compute asks for weights.
  void pull(worker_id who);

  /// A computing worker pushes, or, if it was cancelled, abandons its lease and
  /// pulls.
  void finish(worker_id who);

  /// The worker's cancellation comes too late.
  void ignore_cancel(worker_id who) { players_.at(who).cancelled = false; }

  /// Workers that rest may take the leases of this one, too.
  void deal_again(worker_id who);

  /// The run goes on with another policy.
  void follow(const policies::policy_spec& spec);

  /// A computing worker pushes an unusable gradient, and pulls. Returns true
  /// when it is to be expelled.
  bool push_bad(worker_id who);

  /// Messages that must be recognised as repeated: the newest push again, and a
  /// push of an earlier life.
  void push_again(worker_id who);
  void push_stale(worker_id who);

  // -- properties -------------------------------------------------------------

  struct step {
    version makes;
    std::vector<lease> leases; ///< In the order of the sum.
  };

  const cores::step_scheduler& step_scheduler() const { return scheduler_; }

  const std::vector<step>& steps() const { return steps_; }

  const std::optional<std::string>& stopped() const { return stopped_; }

  bool contains(worker_id who) const { return players_.contains(who); }

  bool computing(worker_id who) const;

  /// Whether it has nothing to compute and has not asked for weights.
  bool idle(worker_id who) const;

  bool joined(worker_id who) const { return players_.at(who).joined; }

  bool cancelled(worker_id who) const { return players_.at(who).cancelled; }

  std::vector<worker_id> everybody() const;

  /// The lease that the worker computes.
  lease current_lease(worker_id who) const;

  /// Answers that the worker got in this life.
  uint64_t answers(worker_id who) const { return players_.at(who).answers; }

  uint64_t dropped() const { return dropped_; }

  /// Samples in the weights.
  uint64_t applied() const { return applied_; }

  /// Checks that every lease handed out is held by a worker or a push, and that
  /// the settled samples are those of the steps.
  void check_ledger() const;

private:
  struct player {
    life_number life;
    bool joined = false;
    bool asked = false;
    bool cancelled = false;
    std::optional<lease> computes;
    std::deque<lease> work;
    version reads;
    uint32_t ahead = cores::leases_ahead;
    sequence last{0};
    bool dropped = false; ///< The gradient of that number.
    uint64_t answers = 0;
  };

  struct held_push {
    std::vector<lease> from;
    version computed_on;
  };

  static std::vector<lease> take_work(player& from);
  push_id next_push(worker_id who);
  void carry_out(const cores::orders& decided);
  void drop(const cores::dropped_push& push, version now);
  void apply(const cores::update_order& order);
  void cover(const lease& work);
  void release(const cores::release_order& order);
  [[noreturn]] void fail(const std::string& why) const;

  void check_members(const cores::orders& decided) const;

  cores::step_scheduler scheduler_;
  uint32_t fewest_ = 0; ///< 0: the number of workers does not vary.
  uint64_t samples_;
  bool ends_ = true; ///< Is over after some epochs.
  version made_{0};
  std::map<worker_id, player> players_;
  std::map<worker_id, life_number> lives_;
  std::map<push_id, held_push> held_;
  std::map<uint64_t, std::vector<bool>> covered_; ///< Positions, by epoch.
  std::vector<step> steps_;
  std::optional<std::string> stopped_;
  uint64_t applied_ = 0; ///< Samples.
  uint64_t dropped_ = 0;
};

} // namespace troupe::test
