#pragma once
// Decides what a push, a pull, a join or a departure means for the whole
// cluster. It combines the aggregation policy, the data ledger, the push window
// and the stop rule. So a gradient is applied exactly when its lease is
// settled, and a checkpoint of a version records exactly the leases settled in
// it.
//
// Beyond the last epoch nothing is handed out. A worker for which there is
// nothing left rests: it leaves the policy, so that nobody waits for it, and
// its request is answered when samples are given back and it has joined the
// policy again. So a run applies the samples of its epochs and no others. Where
// ranks have data to themselves, nobody rests: a rank that is done goes on.
//
// While somebody rests, the leases of a worker that takes long may be dealt a
// second time (backup tasks: Dean and Ghemawat 2004, "MapReduce", section 3.6).
// The gradient that arrives first counts, unless the policy drops it; the other
// one is dropped whole when it arrives, and its worker is told to stop where
// that is possible. So each sample still counts once.
//
// Where the number of workers varies, the run pauses while there are too few:
// the policy is told nothing, so no step is made and nobody is answered, and
// all keep their leases. When there are enough again, it is told of everything
// in the order in which it came.
//
// Owned by the parameter server, the lead shard, which carries out the orders
// in the order of their members. Pure: no actors, no tensors, no clock. Not
// thread-safe.

#include "actors/core/data_ledger.hpp"
#include "actors/core/fragment_turns.hpp"
#include "actors/core/norm_watch.hpp"
#include "actors/core/push_hash.hpp"
#include "actors/core/push_window.hpp"
#include "actors/core/refusals.hpp"
#include "actors/core/round_pace.hpp"
#include "actors/core/stop_rule.hpp"
#include "actors/policies/by_rank.hpp"
#include "actors/policies/policy.hpp"

#include <deque>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace troupe::cores {

/// What the step scheduler is told about a gradient.
struct push_facts {
  push_id id;
  version computed_on;
  std::vector<lease_id> from; ///< The leases that its samples came from.
  uint64_t samples = 1;
  double seconds = 0; ///< That its worker has computed and loaded for it.
};

/// A gradient that makes part of a step.
struct applied_push {
  push_id id;
  uint64_t staleness = 0; ///< In versions.
  double weight = 1;      ///< In the step's mean; see `policies::part`.
};

/// A gradient that is discarded.
struct dropped_push {
  push_id id;
  uint64_t staleness = 0;
};

/// A step to carry out.
struct update_order {
  version makes;                       ///< The version that it produces.
  std::vector<applied_push> gradients; ///< In the order of the sum.
  double rate_factor = 1;              ///< Of this step's learning rate.
  config::momentum_use momentum{};
  /// How many workers the run has, where their number varies; else 0.
  uint32_t members = 0;
};

/// The limits of a number of workers that varies.
struct varying_members {
  uint32_t fewest = 1; ///< The run pauses while there are fewer.
  /// Samples that the leases of all workers have together; 0: each has as many
  /// as the ledger gives.
  uint64_t global_batch = 0;
};

/// From now on the run has so many workers.
struct members_order {
  uint32_t count = 0;
  bool paused = false; ///< They are too few.

  bool operator==(const members_order&) const = default;
};

/// The policy is to be told by `window_over` when so many seconds have passed.
struct window_order {
  version at; ///< The newest version.
  double seconds = 0;
};

/// A worker that is answered with the newest weights.
struct release_order {
  worker_id worker;
  std::vector<lease> leases; ///< New leases, besides those it still has.
  bool dropped = false;      ///< Its last gradient was discarded.
  /// Local steps of its next round, where `pace_rounds` decides; else 0.
  uint32_t steps = 0;
  fragment_turn turn{}; ///< Where `deal_fragments` decides.
};

/// Whether a message of a worker is to be handled.
enum class standing : uint8_t {
  welcome,
  earlier_server, ///< Meant for an earlier life of this server.
  stranger        ///< From a worker, or a life of it, not enlisted.
};

struct orders {
  /// Set when the number of workers has changed, where it varies.
  std::optional<members_order> members;
  std::vector<dropped_push> drop;
  std::vector<update_order> updates;
  std::vector<release_order> release;
  std::vector<worker_id> cancel;
  std::optional<window_order> window;
  /// Set when an update reached the end of the run: no further updates follow,
  /// and nobody is to be released or cancelled any more.
  std::optional<std::string> stop;
};

/// Adds what is to be carried out after `out`.
void append(orders more, orders& out);

/// Leases that a worker has at a time, unless it asks for more: the one that it
/// computes, and the next, which its loader prepares meanwhile.
inline constexpr uint32_t leases_ahead = 2;

/// The same for a worker that makes so many local steps between its pushes, and
/// of the next round so many before its weights come.
constexpr uint32_t leases_for(uint32_t local_steps, uint32_t early = 0) {
  return local_steps > 0 ? local_steps + early + 1 : leases_ahead;
}

/// The most leases that a worker may ask for, so that all of them go into the
/// header of a message.
inline constexpr uint32_t most_leases_ahead = 1024;

class step_scheduler {
public:
  /// Begins at version `start`, in this life of the server.
  step_scheduler(std::unique_ptr<policies::policy> policy, data_ledger ledger,
                 stop_rule stop, version start,
                 life_number server = life_number{1});

  /// From now on `judge_norm` finds outliers. @param factor As in `norm_watch`.
  void watch_norms(double factor) { norms_.emplace(factor); }

  /// From now on workers make local steps by their rates, at most so many in a
  /// round. They enlist with the leases that such a round needs, and have fewer
  /// where they make fewer.
  void pace_rounds(uint32_t most) { pace_.emplace(most); }

  /// From now on workers exchange so many fragments of the weights in turn, and
  /// go on with weights of their own from round to round.
  /// @param lost As in `fragment_turns`.
  void deal_fragments(uint32_t count, uint64_t lost) {
    turns_.emplace(count, lost);
  }

  /// Decides by these rules (policy.hpp), those of an earlier run. To be called
  /// before any worker joins.
  void follow_rules(uint32_t rules) { rules_ = rules; }

  /// From now on the number of workers varies. To be called before any joins.
  void vary_members(const varying_members& limits) { limits_ = limits; }

  /// To be called first for each message of a worker. `server` is the life of
  /// the server that the message is meant for.
  standing look_at(worker_id who, life_number life, life_number server) const;

  /// A worker registers; it is not part of the cluster yet. `data` describes
  /// the data that it has to itself, if any; `ahead` is how many leases it
  /// wants to have at a time.
  void enlist(worker_id who, life_number life, const owned_data& data = {},
              uint32_t ahead = leases_ahead);

  /// Enlisted workers enter the cluster.
  orders join(std::span<const worker_id> who);

  /// A worker left. Its leases are given back, except those of gradients that
  /// the policy holds. Ignored for an earlier life.
  orders leave(worker_id who, life_number life);

  /// Asks the push window about a gradient. Only a fresh one goes on to `push`
  /// or `refuse`.
  freshness admit(const push_id& id);

  /// Whether `admit` would return `fresh`.
  bool is_fresh(const push_id& id) const;

  bool watches_norms() const { return norms_.has_value(); }

  /// Judges the norm of a sound gradient, once, before `push` or, for an
  /// outlier, `refuse`.
  /// @pre watches_norms() @param samples That it is the mean of.
  judged_norm judge_norm(worker_id who, double norm, uint64_t samples) {
    return norms_->judge(who, norm, samples);
  }

  /// A sound gradient arrived.
  orders push(const push_facts& facts);

  /// A gradient is unusable. Its lease is given back; the worker will pull.
  /// Returns true when the worker has sent too many of them and is to be
  /// expelled.
  bool refuse(const push_facts& facts);

  /// The same for an outlier. Its lease is given back when a later gradient of
  /// the worker is sound, or nothing else is left for it: the samples may be
  /// what makes the gradient large, so the worker is judged by others, too.
  bool refuse_outlier(const push_facts& facts);

  /// A worker asks for weights. `abandoned` are the leases that it gave up.
  orders pull(worker_id who, std::span<const lease_id> abandoned = {});

  /// The workers whose leases others would take if these took too long: some
  /// workers rest, and there are no samples for them. In the order of ranks.
  std::vector<worker_id> awaited() const;

  /// The leases of this worker take too long, so workers that rest may have
  /// them, too.
  orders deal_again(worker_id who, life_number life);

  /// Whether a window that began at this version still means something.
  bool awaits_window(version at) const {
    return window_at_ == at && at == policy_->current();
  }

  /// That window is over. @pre awaits_window(at)
  orders window_over(version at);

  /// The run goes on with another policy. The gradients that the policy before
  /// has left make one last step; whoever computes goes on computing. Throws
  /// `run_error`, and changes nothing, if the new policy would not let all
  /// workers begin at once. @pre !is_paused()
  orders follow(std::unique_ptr<policies::policy> next);

  /// An evaluator found these metrics. Returns why the run ends, if it does.
  std::optional<std::string> scored(const config::metrics& found);

  /// Why the run is already over, if it is: a resumed run may have reached its
  /// limits before.
  std::optional<std::string> reached();

  /// Whether the worker has these leases, of this many samples together.
  bool holds(worker_id who, std::span<const lease_id> ids,
             uint64_t samples) const;

  /// The fragment that the worker's next gradient is of.
  uint32_t fragment_of(worker_id who) const {
    return turns_ ? turns_->of_push(who) : 0;
  }

  /// Samples that are applied in some fragments of the weights only; those of
  /// the workers' latest gradients are among them.
  uint64_t partly_applied() const {
    return turns_ ? turns_->partly_applied() : 0;
  }

  /// A lease that the worker has; null if it has none with this number.
  const lease* find(worker_id who, lease_id id) const;

  /// The newest version that was decided on. Behind the policy's own only where
  /// the end of the run cut its last decision short.
  version current() const { return current_; }

  const policies::policy& policy() const { return *policy_; }

  const data_ledger& ledger() const { return ledger_; }

  /// @pre It is enlisted or in the cluster.
  life_number life_of(worker_id who) const { return members_.at(who).life; }

  /// Workers in the cluster.
  size_t members() const { return joined_; }

  /// Whether the run waits for more workers.
  bool is_paused() const { return paused_; }

  /// Whether this life of the worker is enlisted or in the cluster.
  bool knows(worker_id who, life_number life) const;

private:
  enum class place : uint8_t {
    enlisted, ///< Known, but not in the cluster yet.
    entering, ///< In the cluster, but the run pauses, so the policy waits.
    waiting,  ///< In the cluster, not yet released.
    released, ///< Released, but it has not asked for the weights yet.
    working,  ///< Has the weights and computes.
    held,     ///< The policy holds its gradient.
    resting   ///< In the cluster, but there is no work for it.
  };

  struct member {
    life_number life;
    place where = place::enlisted;
    bool asked = false;   ///< Its request for weights is at the server.
    sequence last{0};     ///< Of its gradients.
    bool dropped = false; ///< Whether that gradient was dropped.
    uint32_t ahead = leases_ahead;
    uint64_t batch = 0; ///< Samples of its leases; 0: as the ledger gives.
    std::vector<lease_id> leases;   ///< Granted; neither pushed nor returned.
    std::vector<lease_id> outlying; ///< Of outliers, not given back yet.
    /// The same, but another worker's gradient of them has arrived meanwhile.
    std::vector<lease> taken;
    std::vector<lease> to_send; ///< Those that it was not told of yet.
  };

  struct held_push {
    version computed_on;
    std::vector<lease_id> from;
    uint64_t samples = 0;
  };

  /// What the policy is told when the run goes on.
  struct postponed {
    enum class kind : uint8_t { arrival, pull, leave, window };

    kind what;
    worker_id who{};
    policies::arrival push{};
    std::vector<lease_id> abandoned{}; ///< To be given up then.
    version window{};                  ///< That is over.
  };

  /// Whether the policy may know this life of the worker.
  static bool is_in_policy(const member& who) {
    return who.where > place::entering;
  }

  void count_members(orders& out);
  void share_out_batch();
  orders tell_policy(const postponed& input);
  orders tell_or_postpone(const postponed& input);
  void go_on(orders& out);
  orders carry_out(policies::decision decision);
  orders with_rest(orders out);
  std::optional<std::string> end_after(version made);
  std::vector<lease_id> drop(const push_id& id, orders& out);
  update_order apply(const policies::update& step, version makes);
  policies::update all_held() const;
  std::vector<worker_id> members_in_policy() const;
  void release(std::span<const worker_id> who, orders& out);
  void grant(std::span<const worker_id> who);
  uint32_t ahead_of(worker_id id, const member& who) const;
  release_order hand_over(worker_id id, member& who);
  void give_back(member& who, lease_id id);
  void give_back_outlying(member& who);
  bool has_work() const;
  std::optional<lease> grant_again(const member& to);
  bool left_to_other(lease_id id);
  static bool forget_taken(member& of, std::span<const lease_id> which);
  bool some_work_in_vain() const;
  std::vector<worker_id> take_from_others(const push_facts& facts);
  orders drop_taken(const push_facts& facts);

  std::unique_ptr<policies::policy> policy_;
  data_ledger ledger_;
  stop_rule stop_;
  version current_;
  life_number server_;
  uint32_t rules_ = policies::newest_rules;
  push_window window_;
  refusals refusals_;
  std::optional<norm_watch> norms_;     ///< Nothing: norms are not watched.
  std::optional<round_pace> pace_;      ///< Nothing: rounds are equally long.
  std::optional<fragment_turns> turns_; ///< Nothing: there is one fragment.
  policies::by_rank<member> members_;
  std::vector<worker_id> out_of_work_; ///< They rest, but are in the policy.
  std::vector<worker_id> resting_;
  /// Members in the cluster; counted because each update needs the number.
  size_t joined_ = 0;
  std::unordered_map<push_id, held_push, push_hash> held_;
  size_t held_leases_ = 0;                ///< Of these gradients.
  std::optional<version> window_at_;      ///< The policy's last window.
  std::deque<lease_id> again_;            ///< To be dealt a second time.
  std::unordered_set<lease_id> twice_;    ///< Two workers have them.
  std::optional<varying_members> limits_; ///< Nothing: the number is fixed.
  bool paused_ = false;
  uint32_t counted_ = 0; ///< Members by which steps are made; 0: fixed.
  std::vector<worker_id> entering_;
  std::vector<postponed> postponed_; ///< In their order.
};

} // namespace troupe::cores
