// A launch whose nodes are killed, stopped, drained and joined by others, again
// and again, ends by itself with all that a calm one has.

#include "tests/process/launched.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <numeric>
#include <random>
#include <thread>

using namespace troupe::testing;

namespace {

/// So many there are in a run, more or less: it also goes on meanwhile.
uint64_t disturbances() {
  return wished("TROUPE_CHAOS_EVENTS", 20);
}

/// Between two disturbances so many samples are learned from, so that a slow
/// machine has as many disturbances as a fast one.
constexpr uint64_t samples_between = 256;

constexpr size_t most_workers = 4; ///< As many as the launch starts.

/// An asynchronous run goes on while a disturbance lasts.
uint64_t epochs_of_a_run(const std::string& policy) {
  uint64_t longer = policy == "async" ? 6 : 2;
  return disturbances() * longer * samples_between / digits + 1;
}

flags settings_of(const std::string& policy, int seed) {
  return {"--policy",
          policy,
          "--batch-size",
          "32",
          "--epochs",
          std::to_string(epochs_of_a_run(policy)),
          "--seed",
          std::to_string(seed),
          "--liveness-timeout",
          "1",
          "--checkpoint-freq",
          "20"};
}

class disturbed_launch {
public:
  explicit disturbed_launch(const std::string& policy, uint64_t seed)
    : policy_(policy), draw_(seed),
      process_(on.start("launch",
                        flags{"launch", "--evaluator", "--max-restarts",
                              "100000", "--no-progress-limit", "0", "--workers",
                              "1:" + std::to_string(most_workers), "--"} +
                          flags{"--train-dir", on.run().string()} +
                          on.of_writer() + settings_of(policy, 1))) {
    process_.await("joined +worker 1");
    auto server = command_of(nodes("ps").front());
    for (std::string flag : {"--port", "--token-file"})
      joins_ = joins_ + flags{flag, value_of(server, flag)};
  }

  /// Waits for some progress, then does something to some node. False if the
  /// run has ended.
  bool disturb() {
    if (!await_progress())
      return false;
    auto what = draw_() % 8;
    if (what == 0)
      kill_server();
    else if (what <= 2)
      drain_worker();
    else if (what <= 4)
      stop_worker();
    else if (what == 5)
      join();
    else
      kill_worker();
    return true;
  }

  void check_end_by_itself() {
    CHECK(process_.wait(std::chrono::seconds{180}) == 0);
    // Some may have come too late, or when there were enough.
    for (auto& one : joined_)
      one.wait();
    INFO(process_.report());
    check_completed(on, epochs_of_a_run(policy_));
  }

  process_fixture on{recorded};

private:
  std::vector<pid_t> nodes(const std::string& role) const {
    std::vector<pid_t> out;
    for (auto one : children_of(process_.pid()))
      if (command_of(one).find("--role " + role) != std::string::npos)
        out.push_back(one);
    return out;
  }

  /// Of the launch, and those that were started by hand.
  std::vector<pid_t> workers() {
    auto out = nodes("worker");
    std::erase_if(joined_, [](child& one) { return !one.running(); });
    for (auto& one : joined_)
      out.push_back(one.pid());
    return out;
  }

  pid_t any_worker() {
    std::vector<pid_t> all;
    eventually("a worker", [&] { return !(all = workers()).empty(); });
    return all[draw_() % all.size()];
  }

  uint64_t samples() const {
    uint64_t out = 0;
    for (const auto& line : on.metrics())
      if (line["kind"] == "update")
        out += line["samples"].get<uint64_t>();
    return out;
  }

  bool await_progress() {
    auto wanted = samples() + samples_between;
    auto ended = false;
    try {
      eventually("further samples", [&] {
        ended = !process_.running();
        return ended || samples() >= wanted;
      });
    } catch (const std::runtime_error& why) {
      throw std::runtime_error(process_.report() + why.what());
    }
    return !ended;
  }

  /// The first life of a server has to leave something.
  void kill_server() {
    if (!checkpoints_of(on.run()).empty())
      for (auto one : nodes("ps"))
        kill(one, SIGKILL);
  }

  void kill_worker() {
    auto who = any_worker();
    kill(who, SIGKILL);
    std::erase_if(joined_, [&](const child& one) { return one.pid() == who; });
  }

  void stop_worker() {
    auto who = any_worker();
    kill(who, SIGSTOP);
    // Below and above the time after which it counts as lost.
    std::this_thread::sleep_for(
      std::chrono::milliseconds(draw_() % 2 == 0 ? 100 : 1200));
    kill(who, SIGCONT);
  }

  /// A worker that is told to stop is not started again: another one comes.
  /// When none of its own is left, a launch stops its server.
  void drain_worker() {
    if (nodes("worker").size() < 3)
      return join();
    kill(any_worker(), SIGTERM);
  }

  void join() {
    if (workers().size() >= most_workers)
      return kill_worker();
    joined_.push_back(on.start("joined", flags{"--role", "worker", "--threads",
                                               "1", "--connect-timeout", "10"} +
                                           joins_));
  }

  std::string policy_;
  std::mt19937_64 draw_;
  child process_;
  flags joins_;
  std::vector<child> joined_;
};

double accuracy_of_calm_run(const std::string& policy, int seed) {
  launched it{
    {"--evaluator"}, {}, settings_of(policy, seed) + flags{"--keep", "1"}};
  CHECK(it.process.wait(std::chrono::seconds{180}) == 0);
  return it.on.summary()["final_accuracy"];
}

/// Whether it may be the accuracy of one more calm run: the prediction interval
/// of five normally distributed values has 999 of 1,000 further ones. An
/// accuracy is a count of images, so they differ by one at least.
void check_accuracy(double found, const std::string& policy) {
  constexpr int runs = 5;
  // Of Student's t with 4 degrees of freedom, at 0.9995.
  constexpr double quantile = 8.61;
  constexpr double image = 1.0 / 360;
  std::vector<double> calm;
  for (int seed = 1; seed <= runs; ++seed)
    calm.push_back(accuracy_of_calm_run(policy, seed));
  auto mean = std::accumulate(calm.begin(), calm.end(), 0.0) / runs;
  double squares = 0;
  for (auto one : calm)
    squares += (one - mean) * (one - mean);
  auto deviation = std::max(image, std::sqrt(squares / (runs - 1)));
  CAPTURE(calm);
  CHECK(std::abs(found - mean) <=
        quantile * deviation * std::sqrt(1 + 1.0 / runs));
}

/// Returns the accuracy.
double accuracy_after_chaos(const std::string& policy) {
  disturbed_launch it{policy, wished("TROUPE_CHAOS_SEED", 1)};
  uint64_t done = 0;
  while (it.disturb())
    ++done;
  CHECK(done >= disturbances() / 2);
  it.check_end_by_itself();
  return it.on.summary()["final_accuracy"];
}

} // namespace

TEST_CASE("an asynchronous run under chaos is as good as a calm one") {
  check_accuracy(accuracy_after_chaos("async"), "async");
}

TEST_CASE("a synchronous run under chaos ends by itself") {
  auto found = accuracy_after_chaos("sync");
  if (disturbances() > 20) // By hand: the calm runs take a minute.
    check_accuracy(found, "sync");
}
