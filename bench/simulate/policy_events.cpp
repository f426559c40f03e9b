// Plays clusters against a policy, and against the step scheduler that the
// parameter server asks: no actors, no messages, no tensors.

#include "actors/core/step_scheduler.hpp"
#include "bench/topics.hpp"
#include "config/schema/policies.hpp"
#include "data/sampling/philox.hpp"

#include <functional>
#include <memory>
#include <utility>

namespace troupe::bench {

namespace {

constexpr double target = 1e6; // events a second

/// The kinds of events, and how often each comes in 1,024: mostly gradients.
enum class event { arrival, pull, rejoin };

class dice {
public:
  uint32_t below(uint32_t bound) { return bits_.below(bound); }

  event next_event() {
    auto x = below(1024);
    return x < 8 ? event::rejoin : x < 24 ? event::pull : event::arrival;
  }

private:
  data::philox_stream bits_{1, data::random_purpose::compute_time, 0};
};

/// The workers that compute; chance decides whose gradient comes next.
class crowd {
public:
  void add(worker_id who) { workers_.push_back(who); }

  worker_id take_one(dice& random) {
    auto place = random.below(static_cast<uint32_t>(workers_.size()));
    std::swap(workers_[place], workers_.back());
    auto who = workers_.back();
    workers_.pop_back();
    return who;
  }

private:
  std::vector<worker_id> workers_;
};

std::vector<worker_id> ranks_below(uint32_t workers) {
  std::vector<worker_id> out;
  for (uint32_t i = 0; i < workers; ++i)
    out.push_back(worker_id{i});
  return out;
}

/// A policy and the cluster that it decides for.
class policy_player {
public:
  policy_player(const std::string& name, uint32_t workers)
    : policy_(policies::make_policy(policies::read_spec(name, workers))),
      cluster_(workers) {
    policy_->reset(version{0});
    note_decision(policy_->on_join(ranks_below(workers)));
  }

  /// Plays at least so many events; returns how many.
  uint64_t play(uint64_t at_least) {
    uint64_t done = 0;
    while (done < at_least)
      done += play_one();
    return done;
  }

private:
  struct worker {
    life_number life{1};
    sequence last{0};
    version reads;
  };

  uint64_t play_one() {
    auto who = computing_.take_one(random_);
    auto& its = cluster_[who.value];
    switch (random_.next_event()) {
    case event::arrival:
      its.last = its.last.next();
      note_decision(
        policy_->on_arrival({{who, its.life, its.last}, its.reads}));
      return 1;
    case event::pull:
      note_decision(policy_->on_pull(who));
      return 1;
    default:
      note_decision(policy_->on_leave(who));
      its = {its.life.next(), sequence{0}, {}};
      note_decision(policy_->on_join({&who, 1}));
      return 2;
    }
  }

  void note_decision(const policies::decision& decision) {
    for (auto who : decision.release) {
      cluster_[who.value].reads = policy_->current();
      computing_.add(who);
    }
  }

  std::unique_ptr<policies::policy> policy_;
  std::vector<worker> cluster_;
  crowd computing_;
  dice random_;
};

/// The same for a step scheduler, with its ledger, window and stop rule.
class scheduler_player {
public:
  scheduler_player(const std::string& name, uint32_t workers)
    : scheduler_(policies::make_policy(policies::read_spec(name, workers)),
                 cores::lease_ledger{cores::endless, batch}, cores::stop_rule{},
                 version{0}),
      cluster_(workers) {
    auto all = ranks_below(workers);
    for (auto who : all)
      scheduler_.enlist(who, cluster_[who.value].life);
    note_decision(scheduler_.join(all));
    for (auto who : all)
      note_decision(scheduler_.pull(who));
  }

  uint64_t play(uint64_t at_least) {
    uint64_t done = 0;
    while (done < at_least)
      done += play_one();
    return done;
  }

private:
  static constexpr uint64_t batch = 64;

  struct worker {
    life_number life{1};
    sequence last{0};
    version reads;
    std::vector<lease> work; ///< The first is the one it computes.
  };

  uint64_t play_one() {
    auto who = computing_.take_one(random_);
    switch (random_.next_event()) {
    case event::arrival:
      arrive(who);
      return 1;
    case event::pull:
      pull(who);
      return 1;
    default:
      rejoin(who);
      return 3;
    }
  }

  lease take_work(worker& its) {
    auto out = its.work.front();
    its.work.erase(its.work.begin());
    return out;
  }

  void arrive(worker_id who) {
    auto& its = cluster_[who.value];
    auto from = take_work(its);
    its.last = its.last.next();
    push_id id{who, its.life, its.last};
    if (scheduler_.admit(id) == cores::freshness::fresh &&
        scheduler_.holds(who, {&from.id, 1}, from.count))
      note_decision(scheduler_.push({id, its.reads, {from.id}}));
  }

  void pull(worker_id who) {
    auto given_up = take_work(cluster_[who.value]).id;
    note_decision(scheduler_.pull(who, {&given_up, 1}));
  }

  /// Leaves, joins again and asks for weights: three events.
  void rejoin(worker_id who) {
    auto& its = cluster_[who.value];
    note_decision(scheduler_.leave(who, its.life));
    its = {its.life.next(), sequence{0}, {}, {}};
    scheduler_.enlist(who, its.life);
    note_decision(scheduler_.join({&who, 1}));
    note_decision(scheduler_.pull(who));
  }

  void note_decision(const cores::orders& decided) {
    for (const auto& next : decided.release) {
      auto& its = cluster_[next.worker.value];
      its.reads = scheduler_.current();
      its.work.insert(its.work.end(), next.leases.begin(), next.leases.end());
      computing_.add(next.worker);
    }
  }

  cores::step_scheduler scheduler_;
  std::vector<worker> cluster_;
  crowd computing_;
  dice random_;
};

/// A cluster that is played on with, as in a long run.
struct subject {
  std::string name;
  std::function<uint64_t(uint64_t at_least)> play;
  uint64_t events = 0; ///< Of the last round.
};

template <class Player>
subject subject_of(const char* title, const std::string& policy,
                   uint32_t workers) {
  auto player = std::make_shared<Player>(policy, workers);
  return {std::string{"simulate/"} + title + "/" + policy + "/" +
            std::to_string(workers),
          [player](uint64_t at_least) {
            return player->play(at_least);
          }};
}

std::vector<subject> subjects() {
  std::vector<subject> out;
  for (uint32_t workers : {16, 10000})
    for (const auto& policy : config::policy_names()) {
      out.push_back(subject_of<policy_player>("policy", policy, workers));
      out.push_back(
        subject_of<scheduler_player>("step_scheduler", policy, workers));
    }
  return out;
}

} // namespace

void measure_policy_events(const setting& how, report& out) {
  size_t rounds = how.quick ? 1 : 5;
  uint64_t events = how.quick ? 20'000 : 1'000'000;
  out.begin("policy events a second of one core (arrivals, pulls, leaves, "
            "joins), clusters of 16 and 10,000");
  auto all = subjects();
  std::vector<std::function<void()>> works;
  for (auto& x : all) {
    x.play(events / 4); // The first ones are not counted.
    works.push_back([&x, events] { x.events = x.play(events); });
  }
  auto found = alternate(rounds, works, [&](size_t round) {
    out.progress("policy events, round " + std::to_string(round + 1) + " of " +
                 std::to_string(rounds));
  });
  for (size_t i = 0; i < all.size(); ++i)
    out.add(compare(all[i].name,
                    static_cast<double>(all[i].events) / found[i].cpu_seconds,
                    "1/s", "target", target, better::higher));
}

} // namespace troupe::bench
