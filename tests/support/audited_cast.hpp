#pragma once
// A cast without actors: plays the workers of a policy and holds every decision
// to what policy.hpp promises. A broken promise throws `std::logic_error` with
// the event and the policy's state.

#include "actors/policies/policy.hpp"

#include <map>
#include <set>

namespace troupe::test {

/// A decision in few words, its parts in the order in which they are carried
/// out: `drop 3, update 0 1, release 0 1, cancel 2`; numbers are workers.
std::string text(const policies::decision& what);

class audited_cast {
public:
  explicit audited_cast(const policies::policy_spec& spec);

  // -- events -----------------------------------------------------------------

  policies::decision join(std::vector<worker_id> who);
  policies::decision leave(worker_id who);

  /// The gradient of a computing member arrives.
  policies::decision push(worker_id who);

  /// A computing member gives up.
  policies::decision pull(worker_id who);

  /// From now on a copy of the policy, made by `clone`, and another, made by
  /// `save` and `load`, see the same events and must decide the same.
  void add_twins();

  // -- properties -------------------------------------------------------------

  const policies::policy& policy() const { return *policy_; }

  size_t size() const { return members_.size(); }

  bool contains(worker_id who) const { return members_.contains(who); }

  std::vector<worker_id> computing() const;

  /// Those among the computing members that were told to stop.
  std::vector<worker_id> cancelled() const;

  /// Gradients that were neither applied nor dropped so far.
  const std::set<push_id>& pending() const { return pending_; }

  uint64_t steps() const { return steps_; }

private:
  enum class state { waiting, computing, held };

  struct member {
    state now = state::waiting;
    bool cancelled = false;
    version reads;
    uint64_t pushes = 0;
    incarnation life;
    /// Members at the release, plus those that joined before: joins seen since
    /// give the number of members that were there during a computation.
    uint64_t members_at_release = 0;
    uint64_t joins_at_release = 0;
  };

  struct gradient {
    version computed_on;
    uint64_t members_meanwhile = 0;
  };

  template <class Event>
  policies::decision feed(const std::string& what, Event event);

  void check(const policies::decision& what);
  void check_updates(const policies::decision& what);
  void check_progress();
  void check_texts();
  [[noreturn]] void fail(const std::string& why) const;

  std::unique_ptr<policies::policy> policy_;
  policies::policy_spec spec_;
  std::string event_;
  std::vector<std::unique_ptr<policies::policy>> twins_;
  /// A clone that sees no events, and what it looked like.
  std::unique_ptr<policies::policy> bystander_;
  std::string bystander_state_;
  std::map<worker_id, member> members_;
  std::map<worker_id, incarnation> lives_;
  std::map<push_id, gradient> gradients_; ///< Of `pending_`.
  std::set<push_id> pending_;
  uint64_t steps_ = 0;
  uint64_t joins_ = 0;
};

} // namespace troupe::test
