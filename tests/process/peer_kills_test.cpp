// Peers that are killed at random, over one training.

#include "tests/process/peers.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <csignal>
#include <random>
#include <sstream>
#include <string>
#include <thread>

using namespace troupe::testing;

namespace {

/// What each node has said, but for its progress.
std::string stories_of(const std::vector<child>& all) {
  std::string out;
  for (size_t i = 0; i < all.size(); ++i) {
    out += "--- node " + std::to_string(i) + "\n" + all[i].err();
    std::istringstream said{all[i].out()};
    for (std::string line; std::getline(said, line);)
      if (!line.starts_with("step ") && !line.starts_with("checkpoint "))
        out += line + "\n";
  }
  return out;
}

} // namespace

TEST_CASE("peers that are killed at random, and as many that join, leave each "
          "sample once") {
  const auto kills = wished("TROUPE_KILLS", 10);
  process_fixture on{recorded};
  auto meet = "file://" + (on.home() / "meet").string();
  const flags what{"--policy",
                   "async",
                   "--lr",
                   "0.005", // A small rate: the run learns for long.
                   "--checkpoint-freq",
                   "20",
                   "--liveness-timeout",
                   "3",
                   "--reshard-on-join"};
  const flags endless{"--epochs", "1000000"};
  auto all = start_peers(on, 4, what + endless, meet);
  on.await(all[0], "a checkpoint", is_kind("checkpoint"));
  std::mt19937 random{11};
  auto kill_one = [&] {
    auto victim = all.begin() + random() % all.size();
    victim->kill();
    all.erase(victim);
  };
  for (uint64_t killed = 0; killed < kills;) {
    INFO(killed);
    auto at_once =
      std::min<uint64_t>(random() % 3 == 0 ? 2 : 1, kills - killed);
    for (uint64_t i = 0; i < at_once; ++i, ++killed)
      kill_one();
    auto first = all.size();
    for (uint64_t i = 0; i < at_once; ++i)
      all.push_back(join_peers(on, what + endless, meet));
    try {
      for (auto i = first; i < all.size(); ++i)
        all[i].await("as parameter server shard");
      // Otherwise all nodes that have weights might be killed.
      on.await(all.back(), "an update of the next life", is_kind("update"),
               on.metrics().size());
    } catch (const std::exception& err) {
      FAIL(err.what() << "\n" << stories_of(all));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds{random() % 1000});
  }
  all.front().signal(SIGTERM);
  check_ends_of(all, 75);
  // The run is ended with a few epochs more.
  auto epochs = committed_of(on.metrics()).samples / digits + 2;
  auto rest = what + flags{"--resume", "auto"};
  all.clear();
  all.push_back(start_peer(
    on, 0, 2,
    rest + flags{"--change", "training.epochs=" + std::to_string(epochs)},
    meet));
  all.push_back(start_peer(on, 1, 2, rest, meet));
  check_ends_of(all, 0);
  CHECK(check_completed(on, epochs).resumes > kills);
}
