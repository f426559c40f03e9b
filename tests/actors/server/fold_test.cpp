// The server's state is a function of its events: a server_fold over them, read
// back from the log, has the same scheduler, ledger, policy and counts at every
// version, whatever happened.

#include "config/schema/policies.hpp"
#include "tests/support/server_fixture.hpp"
#include "tests/support/server_fold.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <random>

using namespace troupe;
using namespace troupe::test;

namespace {

/// Members come, go, push what is sound or not, and are pulled along.
void play_at_random(server_fixture& on, std::mt19937_64& random) {
  worker_id who{static_cast<uint32_t>(random() % 5)};
  auto found = on.players.find(who);
  auto dice = random() % 100;
  if (found == on.players.end() || dice < 5) {
    auto life =
      found == on.players.end() ? life_number{1} : found->second.life.next();
    if (found != on.players.end())
      on.leave(who);
    on.enlist(who, life);
    on.players[who].asks = on.pull(who);
    on.actors.tell(on.lead, join_atom_v, std::vector{who});
  } else if (found->second.asks->values) {
    on.settle(who);
    auto x = dice < 10 ? std::numeric_limits<float>::quiet_NaN() : 0.01f;
    on.push(who, x);
  }
}

/// Without the fields that depend on the clock.
std::string manifest_text(proto::Manifest manifest) {
  manifest.clear_files();
  manifest.clear_optimizer();
  auto* counters = manifest.mutable_counters();
  for (const auto* name :
       {"elapsed_seconds", "wall_seconds", "virtual_seconds"}) {
    const auto* field = counters->GetDescriptor()->FindFieldByName(name);
    if (field != nullptr)
      counters->GetReflection()->ClearField(counters, field);
  }
  return manifest.DebugString();
}

} // namespace

TEST_CASE("a fold over the events has the server's state at every version") {
  for (const auto& policy : config::policy_names())
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      INFO("policy " << policy << ", seed " << seed);
      server_fixture on;
      std::vector<std::string> log;
      on.settings.policy.name = policy;
      on.settings.checkpoint.checkpoint_freq = 1;
      on.settings.training.max_steps = 40;
      on.event_log = [&](proto::LogEvent& event) {
        log.push_back(event.SerializeAsString());
      };
      on.settings.cluster.workers = 3;
      on.open_empty();
      server_fold fold{on.parts()};
      size_t read = 0;
      uint64_t compared = 0;
      std::mt19937_64 random{seed};
      for (int i = 0; i < 1000; ++i) {
        play_at_random(on, random);
        for (; read < log.size(); ++read) {
          proto::LogEvent event;
          REQUIRE(event.ParseFromString(log[read]));
          auto before = fold.current();
          REQUIRE_NOTHROW(fold.apply(event));
          auto makes_it = [&](const snapshot_ptr& one) {
            return version{one->manifest.step()} == fold.current();
          };
          auto& taken = on.writer->snapshots;
          auto found = std::ranges::find_if(taken, makes_it);
          if (fold.current() == before || found == taken.end())
            continue;
          CHECK(manifest_text((*found)->manifest) ==
                manifest_text(fold.manifest()));
          ++compared;
        }
      }
      CHECK(compared > 10);
    }
}
