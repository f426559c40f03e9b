#pragma once
// The invariant checker of a virtual run: observes the decisions of the server,
// the messages on links and the faults, keeps its own records, and checks that
// the run keeps these invariants. It shares no code with the decision cores
// that it checks.
//
//   once        no gradient counts twice
//   kept        a gradient that was acknowledged is in the weights, was
//               dropped as late, or was rolled back by a restart; a restart
//               begins at the newest durable checkpoint
//   staleness   within the policy's bound; under ssp clocks, too
//   versions    go up by one, except after a restart
//   samples     each once an epoch, and the ledger of a checkpoint agrees;
//               a lease that is given back is handed out again; only a late
//               lease may be with two workers, and it counts once; where ranks
//               have parts of the data, each rank gets its own, and all of it
//               while the rank is present
//   lives       nothing of an earlier life of a worker or of the server counts
//   sound       no sound gradient is refused, except, where norms are watched,
//               one whose norm is beyond the factor; and none of these is used
//   progress    when all workers wait, one of them is answered; after the
//               last fault updates continue and lost workers return
//
// The first breach is recorded and ends the run. Shared by the parameter
// server, the links and the fault injector of a virtual run; not thread-safe.

#include "actors/events/event.hpp"
#include "actors/links/push_observer.hpp"
#include "actors/policies/policy.hpp"
#include "apps/lab/simulation/fragment_watch.hpp"
#include "config/schema/policies.hpp"
#include "config/values/faults.hpp"

#include <array>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace troupe::simulation {

/// The faults of a run, to see that they had an effect.
struct fault_counts {
  std::array<uint64_t, config::fault_kinds> enacted{}; ///< By kind.
  uint64_t updates = 0;
  uint64_t rolled_back = 0; ///< Restarts that lost updates.
  uint64_t stale = 0;       ///< Pushes of earlier lives that were refused.
  uint64_t duplicates = 0;  ///< Pushes that were refused as seen before.
  uint64_t returns = 0;     ///< Members that returned.
  uint64_t hung = 0;        ///< Members that left because they hung.
  uint64_t again = 0;       ///< Leases that were out twice.
  uint64_t fences = 0;      ///< Changes of the policy.
};

struct invariant_rules {
  policies::policy_spec policy;
  uint64_t samples = 0; ///< In an epoch.
  double liveness = 15; ///< s until silence is noticed.
  double joining = 60;  ///< s that a server waits for all of its workers.
  double transfer = 0;  ///< s of a tensor on an otherwise idle link.
  /// Virtual seconds since the run began, without those that the process slept.
  std::function<double()> now;
  std::function<double()> longest; ///< s of the longest computation so far.
  /// Instead of `samples`: the samples of each rank's part; empty without
  /// parts.
  std::vector<uint64_t> parts{};
  /// Times the median of others that a gradient's norm may be; nothing: norms
  /// are not watched.
  std::optional<double> norm_factor{};
  /// With fewer workers the run pauses; 0: their number does not vary.
  uint32_t fewest = 0;
  uint32_t fragments = 1; ///< Of the weights, exchanged in turn.
};

class invariant_checker final : public event_subscriber, public push_observer {
public:
  explicit invariant_checker(invariant_rules rules);

  // -- inputs -----------------------------------------------------------------

  /// An event of a server: checked according to its kind.
  void on_event(const event& entry) override;

  /// The server goes on, or begins its next life, with this policy.
  void follow(const policies::policy_spec& policy);

  void began(life_number server, const proto::Manifest* from);
  void enlisted(worker_id who, life_number life);
  void entered(std::span<const worker_id> who);
  void left(worker_id who, life_number life);
  void accepted(const push_header& header);
  void judged(const inputs::arrived& push);
  void refused(const push_header& header, errc why = errc::not_finite);
  void pulled(worker_id who, std::span<const lease_id> abandoned);
  void passed_deadline(worker_id who);
  void applied(version makes, std::span<const push_header> parts);
  void dropped(const push_header& header);
  void released(worker_id who, const release_header& header);
  void ended();
  void saved(version number);
  void pushed(const push_header& header) override;
  void acknowledged(const push_header& header,
                    const release_header& answer) override;
  void turned_away(const push_header& header, const caf::error& why) override;

  /// A fault was carried out; its effect is over at `until`.
  void enacted(const config::fault& incident, double until);

  /// A worker's process runs, or not, from now on.
  void process(worker_id who, bool there);

  /// The run was completed, with this last checkpoint and this many samples in
  /// the weights.
  void finish(const proto::Manifest& last, uint64_t samples_applied);

  // -- results ----------------------------------------------------------------

  /// Checks the time limits; returns the first breach, if any, such as "12.5 s:
  /// once: ...".
  const std::optional<std::string>& breach();

  const fault_counts& counts() const { return counts_; }

private:
  /// A push of one life of the server.
  using push_key = std::pair<life_number, push_id>;

  enum class state : uint8_t { out, held, free };

  struct known_lease {
    lease what;
    worker_id worker;
    life_number life;
    state now = state::out;
    double since = 0; ///< When it became free.
    double given = 0; ///< When it was given out.
    /// The lease took long, so one more worker may have it as well.
    bool is_late = false;
    std::optional<std::pair<worker_id, life_number>> other{};

    bool is_of(worker_id who, life_number of) const {
      return (worker == who && life == of) || other == std::pair{who, of};
    }
  };

  /// A worker's lease of which another worker's gradient was accepted first.
  using lost_lease = std::tuple<lease_id, worker_id, life_number>;

  struct member {
    life_number life;
    bool is_member = false;
    bool waits = false; ///< For an answer to its push or pull.
    uint64_t clock = 0; ///< The clock of ssp.
    std::optional<version> reads;
    size_t members_at_release = 0;
    uint64_t entries_at_release = 0;
  };

  struct commit {
    version makes;
    lease what;
  };

  using ranges = std::map<uint64_t, uint64_t>; ///< First -> end.
  using place = std::pair<uint64_t, uint32_t>; ///< Epoch, part.
  using coverage = std::map<place, ranges>;

  push_header take_held(const push_id& id);
  void breached(const char* promise, const std::string& how);
  uint32_t parts() const;
  uint64_t samples_of(uint32_t part) const;
  ranges missing(uint64_t epoch, uint32_t part) const;
  bool covered(const lease& work) const;
  static void add(const lease& work, coverage& to);
  void cover(const lease& work);
  void come_too_late(known_lease& which);
  bool has_lost_any(const push_header& header) const;
  void win(known_lease& which, const push_header& header);
  static bool is_kept_by_other(known_lease& which, worker_id who);
  void apply(version makes, const push_header& part);
  void check_staleness(version makes, const push_header& part);
  void check_clock(worker_id who);
  void check_ledger(const proto::Manifest& from, const char* where);
  void check_part(const proto::DataPart& from, uint64_t completed,
                  const char* where);
  void recall_late(const proto::DataLedger& from);
  bool was_away(uint32_t part) const;
  void check_returned_leases();
  void check_returned_leases(uint32_t part);
  void check_returned_workers();
  void check_progress();
  void check_deadlock();
  std::optional<double> median_of_others(worker_id who, uint64_t samples) const;
  void take_over(const proto::Manifest& from);
  void roll_back(version to);
  void free_leases(worker_id who);
  void hung(worker_id who);
  uint64_t slowest() const;
  size_t cluster() const;
  void require_enough();
  void set_clocks(std::span<const worker_id> who);
  double patience() const;

  invariant_rules rules_;
  fragment_watch fragments_;
  const config::policy_facts* facts_; ///< Of the policy in the rules.
  version fence_;                     ///< The policy is in force since then.
  std::optional<std::string> breach_;
  fault_counts counts_;

  life_number server_{0};
  version version_;
  std::optional<version> durable_;
  std::map<worker_id, member> members_;
  std::map<worker_id, life_number> lives_; ///< The highest of this server.
  std::map<lease_id, known_lease> leases_; ///< Of this life of the server.
  std::set<lost_lease> lost_;
  uint64_t entries_ = 0; ///< Joins so far, over all lives.
  bool ended_ = false;
  bool is_down_ = false;            ///< The server, until its next life.
  bool paused_ = false;             ///< There are too few workers.
  std::vector<worker_id> entering_; ///< While it pauses.
  std::optional<double> all_wait_since_;
  std::map<uint32_t, known_lease> newest_; ///< The last one granted, by part.

  std::set<push_key> sent_;
  std::set<push_key> accepted_;
  std::set<push_key> decided_;          ///< Applied or dropped.
  std::set<push_key> undecided_;        ///< Held when a server's life ended.
  std::map<push_id, push_header> held_; ///< Accepted, but not decided on.
  /// Norms and numbers of samples of each worker's gradients, in their order.
  std::map<worker_id, std::vector<std::pair<double, uint64_t>>> norms_;
  std::vector<commit> commits_;
  coverage covered_;        ///< Samples in the weights.
  coverage late_;           ///< With parts: samples left out as too late.
  std::set<uint32_t> away_; ///< Parts whose rank was absent for a while.
  /// Samples that an earlier run had left out, which count as applied here.
  std::map<uint32_t, uint64_t> left_out_before_;
  uint64_t samples_ = 0;

  struct process_state {
    bool there = false;
    double since = 0; ///< Or since it was found to hang.
  };

  std::map<worker_id, process_state> processes_;
  double faults_until_ = 0;  ///< When the last fault so far is over.
  double stalled_until_ = 0; ///< No answer is required before.
  double longest_delay_ = 0;
  double last_update_ = 0;
  double began_at_ = 0; ///< When this life of the server began.
};

} // namespace troupe::simulation
