#pragma once
// What every aggregation policy must do, including one of a user's program:
// `conform("mine")` plays seeded random histories of a cluster with random
// parameters, and throws `std::logic_error` at the first broken promise. Needs
// no test framework. Not thread-safe.

#include "tests/policies/audited_cluster.hpp"

#include <cstdint>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::test {

class chance {
public:
  explicit chance(uint64_t seed) : engine_(seed) {
    // nop
  }

  /// Uniform in [0, n).
  uint32_t below(uint64_t n) { return static_cast<uint32_t>(engine_() % n); }

  bool one_in(uint64_t n) { return below(n) == 0; }

  template <class T>
  T any_of(const std::vector<T>& xs) {
    return xs[below(xs.size())];
  }

private:
  std::mt19937_64 engine_;
};

/// A valid value of the parameter; a small one where the range is large.
inline std::string any_value(const config::parameter& of, chance& random) {
  using kind = config::value_range::kind;
  const auto& range = of.range;
  auto span = std::min(range.most - range.least, 4.0);
  switch (range.what) {
  case kind::whole:
    return range.read(std::to_string(static_cast<uint64_t>(range.least) +
                                     random.below(1 + uint64_t(span))));
  case kind::number:
    return range.read(
      std::to_string(range.least + span * (1 + random.below(100)) / 100));
  case kind::word:
    return random.any_of(range.words);
  case kind::text:
  case kind::path:
    break;
  }
  return of.by_default;
}

/// None, in half of all cases.
inline config::staleness_rule any_rule(chance& random) {
  using kind = config::staleness_rule_kind;
  if (random.one_in(2))
    return {};
  if (random.one_in(2))
    return {kind::polynomial, 0.25 * random.below(8)};
  return {kind::delayed_nesterov, 0, random.below(4)};
}

/// A policy of this name with valid random parameters, and perhaps with a
/// staleness rule.
inline policies::policy_spec any_spec(std::string_view name, uint32_t workers,
                                      chance& random) {
  const auto& facts = config::find_policy(name);
  for (;;) {
    policies::policy_spec spec{facts.schema.name, workers};
    spec.staleness = any_rule(random);
    for (const auto& each : facts.schema.parameters)
      spec.parameters.set(each.name, any_value(each, random));
    if (!facts.object || !facts.object(spec.parameters, spec.workers))
      return spec;
  }
}

inline std::vector<worker_id> some_absent(const audited_cluster& cluster,
                                          chance& random) {
  std::vector<worker_id> result;
  for (uint32_t rank = 0; rank < 10; ++rank)
    if (!cluster.contains(worker_id{rank}) && random.one_in(3))
      result.push_back(worker_id{rank});
  return result;
}

/// One event that may happen at any time.
inline void any_event(audited_cluster& cluster, chance& random) {
  auto busy = cluster.computing();
  auto dice = random.below(100);
  if (busy.empty() || dice < 6) {
    if (auto who = some_absent(cluster, random); !who.empty())
      cluster.join(who);
  } else if (dice < 12) {
    cluster.leave(worker_id{random.below(10)}); // known or not
  } else if (dice < 18) {
    cluster.pull(random.any_of(busy)); // its gradient was refused
  } else if (cluster.has_window() && dice < 30) {
    cluster.end_window();
  } else if (auto stopped = cluster.cancelled();
             dice < 50 && !stopped.empty()) {
    cluster.pull(random.any_of(stopped));
  } else {
    cluster.push(random.any_of(busy));
  }
}

/// Members push until each has done so `times` times.
inline void let_all_finish(audited_cluster& cluster, chance& random,
                           int times) {
  for (int round = 0; round < times; ++round) {
    auto todo = cluster.computing();
    while (!todo.empty()) {
      auto i = todo.begin() + random.below(todo.size());
      if (cluster.contains(*i))
        cluster.push(*i);
      todo.erase(i);
    }
  }
}

// -- the promises -------------------------------------------------------------

inline void require(bool holds, const std::string& promise) {
  if (!holds)
    throw std::logic_error("broken: " + promise);
}

inline void keeps_its_promises_in_any_history(const policies::policy_spec& spec,
                                              chance& random) {
  audited_cluster cluster{spec};
  for (int i = 0; i < 300; ++i)
    any_event(cluster, random);
}

inline void makes_steps_when_all_finish(const policies::policy_spec& spec,
                                        chance& random, int rounds) {
  audited_cluster cluster{spec};
  for (int i = 0; i < 60; ++i)
    any_event(cluster, random);
  if (cluster.size() == 0)
    cluster.join({worker_id{0}, worker_id{1}});
  auto pending = cluster.pending();
  auto before = cluster.steps();
  let_all_finish(cluster, random, rounds);
  require(cluster.steps() > before, "members that all finish make steps");
  for (auto& id : pending)
    require(!cluster.pending().contains(id),
            "a gradient is applied or dropped in the end");
}

inline void is_like_new_after_a_reset(const policies::policy_spec& spec,
                                      chance& random) {
  audited_cluster cluster{spec};
  for (int i = 0; i < 100; ++i)
    any_event(cluster, random);
  auto fresh = policies::make_policy(spec);
  cluster.policy().reset(version{42});
  fresh->reset(version{42});
  require(cluster.policy().current() == version{42} &&
            cluster.policy().state() == fresh->state(),
          "a reset policy is like a new one at that version");
}

inline void ignores_strangers(const policies::policy_spec& spec,
                              chance& random) {
  audited_cluster cluster{spec};
  cluster.join({worker_id{0}, worker_id{1}});
  for (int i = 0; i < 20; ++i)
    cluster.push(random.any_of(cluster.computing()));
  auto& policy = cluster.policy();
  auto before = policy.state();
  worker_id stranger{77};
  push_id id{stranger, life_number{1}, sequence{1}};
  policies::decision only_dropped;
  only_dropped.drop.push_back(id);
  require(policy.on_leave(stranger) == policies::decision{} &&
            policy.on_pull(stranger) == policies::decision{} &&
            policy.on_arrival({id, policy.current(), 1}) == only_dropped &&
            policy.state() == before,
          "strangers change nothing, and their gradients are dropped");
}

inline void lets_nobody_join_twice(const policies::policy_spec& spec) {
  auto policy = policies::make_policy(spec);
  std::vector<worker_id> who{worker_id{3}};
  policy->on_join(who);
  try {
    policy->on_join(who);
  } catch (const std::logic_error&) {
    return;
  }
  require(false, "joining twice throws std::logic_error");
}

/// Checks all promises for one seed.
/// @param rounds In each round every member pushes once: within so many there
/// must be a step, and everything held before must be decided on. Five are
/// enough for a buffer of five gradients, and one worker.
inline void conform(std::string_view name, uint64_t seed, int rounds = 5) {
  chance random{seed};
  auto spec = any_spec(name, 1 + random.below(8), random);
  keeps_its_promises_in_any_history(spec, random);
  makes_steps_when_all_finish(spec, random, rounds);
  is_like_new_after_a_reset(spec, random);
  ignores_strangers(spec, random);
  lets_nobody_join_twice(spec);
}

} // namespace troupe::test
