// What every policy in the registry must do. A new policy is tested here
// without a line of its own.

#include "actors/policies/policy.hpp"
#include "config/failure.hpp"
#include "tests/support/audited_cast.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include <random>
#include <stdexcept>

using namespace troupe;
using namespace troupe::policies;
using troupe::test::audited_cast;

namespace {

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

policy_spec any_spec(std::string_view name, chance& random) {
  policy_spec spec;
  spec.name = name;
  spec.workers = 1 + random.below(8);
  spec.backup_workers = random.below(spec.workers);
  spec.late = random.one_in(2) ? late_rule::cancel : late_rule::drop;
  spec.staleness = random.below(4);
  return spec;
}

std::vector<worker_id> some_absent(const audited_cast& cast, chance& random) {
  std::vector<worker_id> result;
  for (uint32_t rank = 0; rank < 10; ++rank)
    if (!cast.contains(worker_id{rank}) && random.one_in(3))
      result.push_back(worker_id{rank});
  return result;
}

/// One event that may happen at any time.
void any_event(audited_cast& cast, chance& random) {
  auto busy = cast.computing();
  auto dice = random.below(100);
  if (busy.empty() || dice < 6) {
    if (auto who = some_absent(cast, random); !who.empty())
      cast.join(who);
  } else if (dice < 12) {
    cast.leave(worker_id{random.below(10)}); // known or not
  } else if (dice < 18) {
    cast.pull(random.any_of(busy)); // its gradient was refused
  } else if (auto stopped = cast.cancelled(); dice < 50 && !stopped.empty()) {
    cast.pull(random.any_of(stopped));
  } else {
    cast.push(random.any_of(busy));
  }
}

/// Every member pushes or pulls until each has done so `times` times.
void let_all_finish(audited_cast& cast, chance& random, int times) {
  for (int round = 0; round < times; ++round) {
    auto todo = cast.computing();
    while (!todo.empty()) {
      auto i = todo.begin() + random.below(todo.size());
      if (cast.contains(*i))
        cast.push(*i);
      todo.erase(i);
    }
  }
}

template <class Test>
void for_every_policy(uint64_t seed, Test test) {
  for (auto name : policy_names()) {
    chance random{seed};
    auto spec = any_spec(name, random);
    INFO("policy " << name << ", seed " << seed);
    test(spec, random);
  }
}

} // namespace

TEST_CASE("a policy keeps its promises in any history") {
  for (uint64_t seed = 0; seed < 150; ++seed)
    for_every_policy(seed, [](const policy_spec& spec, chance& random) {
      audited_cast cast{spec};
      for (int i = 0; i < 300; ++i)
        CHECK_NOTHROW(any_event(cast, random));
    });
}

TEST_CASE("a cast whose members all finish makes steps") {
  for (uint64_t seed = 0; seed < 100; ++seed)
    for_every_policy(seed, [](const policy_spec& spec, chance& random) {
      audited_cast cast{spec};
      for (int i = 0; i < 60; ++i)
        any_event(cast, random);
      if (cast.size() == 0)
        cast.join({worker_id{0}, worker_id{1}});
      auto pending = cast.pending();
      auto before = cast.steps();
      let_all_finish(cast, random, 4);
      CHECK(cast.steps() > before);
      for (auto& id : pending)
        CHECK(!cast.pending().contains(id));
    });
}

TEST_CASE("copies of a policy decide as it does and live their own lives") {
  for (uint64_t seed = 0; seed < 60; ++seed)
    for_every_policy(seed, [](const policy_spec& spec, chance& random) {
      audited_cast cast{spec};
      for (int i = 0; i < 200; ++i) {
        if (random.one_in(20))
          CHECK_NOTHROW(cast.add_twins());
        CHECK_NOTHROW(any_event(cast, random));
      }
    });
}

TEST_CASE("a reset policy is like a new one at that version") {
  for_every_policy(7, [](const policy_spec& spec, chance& random) {
    audited_cast cast{spec};
    for (int i = 0; i < 100; ++i)
      any_event(cast, random);
    auto used = cast.policy().clone();
    auto fresh = make_policy(spec);
    used->reset(version{42});
    fresh->reset(version{42});
    CHECK(used->current() == version{42});
    CHECK(used->save() == fresh->save());
  });
}

TEST_CASE("strangers change nothing") {
  for_every_policy(3, [](const policy_spec& spec, chance& random) {
    audited_cast cast{spec};
    cast.join({worker_id{0}, worker_id{1}});
    for (int i = 0; i < 20; ++i)
      cast.push(random.any_of(cast.computing()));
    auto policy = cast.policy().clone();
    auto before = policy->save();
    worker_id stranger{77};
    push_id id{stranger, incarnation{1}, sequence{1}};
    CHECK(policy->on_leave(stranger) == decision{});
    CHECK(policy->on_pull(stranger) == decision{});
    CHECK(policy->on_arrival({id, policy->current()}) ==
          decision{.drop = {id}, .updates = {}, .release = {}, .cancel = {}});
    CHECK(policy->save() == before);
  });
}

TEST_CASE("nobody joins twice") {
  for_every_policy(4, [](const policy_spec& spec, chance&) {
    auto policy = make_policy(spec);
    std::vector<worker_id> who{worker_id{3}};
    policy->on_join(who);
    CHECK_THROWS_AS(policy->on_join(who), std::logic_error);
  });
}

TEST_CASE("a policy takes back only its own state") {
  for_every_policy(5, [](const policy_spec& spec, chance& random) {
    audited_cast cast{spec};
    for (int i = 0; i < 50; ++i)
      any_event(cast, random);
    auto policy = cast.policy().clone();
    auto state = policy->save();
    for (auto other : policy_names())
      if (other != spec.name) {
        auto other_spec = spec;
        other_spec.name = other;
        CHECK(!policy->load(make_policy(other_spec)->save()));
      }
    CHECK(!policy->load(""));
    CHECK(!policy->load(state + " "));
    CHECK(!policy->load(state + ",1"));
    CHECK(!policy->load("x" + state));
    for (size_t size = 0; size < state.size(); ++size) {
      // A cut may leave a state that is valid in itself; it must not break.
      auto victim = policy->clone();
      victim->load(state.substr(0, size));
    }
    CHECK(policy->save() == state);
  });
}

TEST_CASE("the registry knows its policies by name") {
  CHECK(policy_names() ==
        std::vector<std::string_view>{"sync", "backup", "ssp", "async"});
  for (auto name : policy_names()) {
    policy_spec spec;
    spec.name = name;
    spec.workers = 4;
    CHECK(make_policy(spec)->name() == name);
  }
  policy_spec spec;
  spec.name = "snyc";
  try {
    make_policy(spec);
    FAIL("made a policy that does not exist");
  } catch (const usage_error& problem) {
    CHECK(std::string{problem.what()} ==
          "unknown policy 'snyc': known are sync, backup, ssp, async");
  }
}
