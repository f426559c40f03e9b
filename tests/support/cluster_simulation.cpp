#include "tests/support/cluster_simulation.hpp"

#include <algorithm>
#include <map>
#include <queue>

namespace troupe::test {

// -- compute times ------------------------------------------------------------

compute_time constant_time(double seconds) {
  return [=](worker_id, random_engine&) {
    return seconds;
  };
}

compute_time exponential_time(double offset, double mean) {
  return [=](worker_id, random_engine& random) {
    return offset + std::exponential_distribution<double>{1 / mean}(random);
  };
}

compute_time gamma_time(double mean, double cv) {
  auto shape = 1 / (cv * cv);
  return [=](worker_id, random_engine& random) {
    return std::gamma_distribution<double>{shape, mean / shape}(random);
  };
}

compute_time transient_time(compute_time base, double p, double factor) {
  return [=](worker_id who, random_engine& random) {
    auto hit = std::bernoulli_distribution{p}(random);
    return base(who, random) * (hit ? factor : 1);
  };
}

compute_time slow_time(compute_time base, worker_id slow, double factor) {
  return [=](worker_id who, random_engine& random) {
    return base(who, random) * (who == slow ? factor : 1);
  };
}

// -- the simulation -----------------------------------------------------------

namespace {

class simulation {
public:
  simulation(const policies::policy_spec& spec, const compute_time& takes,
             uint64_t seed)
    : policy_(policies::make_policy(spec)), takes_(takes), random_(seed),
      workers_(spec.workers) {
    figures_.applied_of.resize(spec.workers);
  }

  cluster_figures run(uint64_t steps) {
    std::vector<worker_id> all;
    for (uint32_t rank = 0; rank < workers_.size(); ++rank)
      all.push_back(worker_id{rank});
    carry_out(policy_->on_join(all));
    while (figures_.steps < steps)
      finish_next();
    figures_.mean_staleness =
      static_cast<double>(staleness_) / static_cast<double>(figures_.applied);
    return figures_;
  }

private:
  struct worker {
    uint64_t computation = 0; ///< Counts them: a cancelled one is outdated.
    version reads;
  };

  struct finish {
    double time;
    uint64_t number; ///< Breaks ties in the order of the starts.
    worker_id who;
    uint64_t computation;

    bool operator>(const finish& other) const {
      return time != other.time ? time > other.time : number > other.number;
    }
  };

  void finish_next() {
    auto next = finishes_.top();
    finishes_.pop();
    auto& worker = workers_[next.who.value];
    if (next.computation != worker.computation)
      return;
    now_ = next.time;
    push_id id{next.who, life_number{1}, sequence{worker.computation}};
    reads_[id] = worker.reads;
    carry_out(policy_->on_arrival({id, worker.reads}));
  }

  void carry_out(const policies::decision& decision) {
    figures_.dropped += decision.drop.size();
    for (auto& update : decision.updates)
      apply(update);
    for (auto who : decision.release)
      start(who);
    for (auto who : decision.cancel) {
      ++workers_[who.value].computation;
      carry_out(policy_->on_pull(who));
    }
  }

  void apply(const policies::update& step) {
    for (auto& [id, weight] : step.gradients) {
      auto age = figures_.steps - reads_.extract(id).mapped().value;
      staleness_ += age;
      figures_.max_staleness = std::max(figures_.max_staleness, age);
      ++figures_.applied_of[id.worker.value];
    }
    figures_.applied += step.gradients.size();
    figures_.seconds = now_;
    ++figures_.steps;
  }

  void start(worker_id who) {
    auto& worker = workers_[who.value];
    worker.reads = policy_->current();
    finishes_.push(
      {now_ + takes_(who, random_), ++starts_, who, ++worker.computation});
  }

  std::unique_ptr<policies::policy> policy_;
  const compute_time& takes_;
  random_engine random_;
  std::vector<worker> workers_;
  std::map<push_id, version> reads_; ///< Of gradients that have arrived.
  std::priority_queue<finish, std::vector<finish>, std::greater<>> finishes_;
  double now_ = 0;
  uint64_t starts_ = 0;
  uint64_t staleness_ = 0;
  cluster_figures figures_;
};

} // namespace

cluster_figures simulate_cluster(const policies::policy_spec& spec,
                                 const compute_time& takes, uint64_t steps,
                                 uint64_t seed) {
  return simulation{spec, takes, seed}.run(steps);
}

} // namespace troupe::test
