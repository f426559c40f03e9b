// Elastic training while a worker is killed every 15 s: Troupe's `launch`,
// torchrun and torchft (recovery.py), each beside itself without kills.

#include "apps/scratch_folder.hpp"
#include "bench/cluster/applied_samples.hpp"
#include "bench/peers/peers.hpp"
#include "bench/topics.hpp"
#include "config/text/failure.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

namespace troupe::bench {

namespace {

/// Seconds.
struct durations {
  int calm = 0; ///< Of a run without kills.
  int killing = 0;
  int between_kills = 0;
};

/// What trains, with what is known of it from all of its runs.
struct contender {
  std::string name;  ///< For recovery.py.
  std::string shown; ///< As a reference.
  bool ours = false;
  std::vector<double> calm_rates{}; ///< Samples a second.
  std::vector<double> rates{};      ///< The same with kills.
  std::vector<double> pauses{};     ///< One for each kill, as the next.
  std::vector<double> returns{};
  // Samples of all runs with kills:
  double lost = 0;
  double doubled = 0;
  double in_vain = 0; ///< Computed, and not in the weights.

  double goodput() const { return median(rates) / median(calm_rates); }

  double of_kill(double samples) const {
    return samples / static_cast<double>(pauses.size());
  }
};

bool has_torchft(const setting& how) {
  try {
    run_child({how.python.string(), "-c",
               "import importlib.util, sys;"
               "sys.exit(importlib.util.find_spec('torchft') is None)"});
    return true;
  } catch (const run_error&) {
    return false;
  }
}

nlohmann::json run_once(const contender& which, int seconds, int between_kills,
                        const setting& how) {
  app::scratch_folder scratch;
  auto command = with_package(how);
  for (const auto& word :
       {how.python.string(), std::string{TROUPE_BENCH_RECOVERY}, which.name,
        std::to_string(seconds), std::to_string(between_kills),
        scratch.path().string()})
    command.push_back(word);
  run_child(command);
  std::ifstream in{scratch.path() / "found.json"};
  auto found = nlohmann::json::parse(in);
  if (which.ours) {
    auto account = count_samples(scratch.path() / "run" / "tape-1.pb");
    found["applied"] = account.applied;
    found["lost"] = account.lost;
    found["doubled"] = account.doubled;
  }
  return found;
}

/// Samples a second that came into the weights.
double rate_in(const nlohmann::json& found) {
  return (found["applied"].get<double>() - found["outside"].get<double>()) /
         found["seconds"].get<double>();
}

void add_run_with_kills(contender& which, const nlohmann::json& found) {
  which.rates.push_back(rate_in(found));
  for (double seconds : found["pauses"])
    which.pauses.push_back(seconds);
  for (double seconds : found["returns"])
    which.returns.push_back(seconds);
  which.lost += found["lost"].get<double>();
  which.doubled += found["doubled"].get<double>();
  which.in_vain +=
    found["computed"].get<double>() - found["applied"].get<double>();
}

void run_in_turn(std::vector<contender>& all, const durations& lengths,
                 size_t rounds, const setting& how, report& out) {
  for (size_t round = 0; round < rounds; ++round)
    for (auto& which : all) {
      out.progress("killed workers, " + which.name + ", round " +
                   std::to_string(round + 1) + " of " + std::to_string(rounds));
      auto calm = run_once(which, lengths.calm, 0, how);
      which.calm_rates.push_back(rate_in(calm));
      add_run_with_kills(
        which, run_once(which, lengths.killing, lengths.between_kills, how));
    }
}

void compare_recovery(const contender& ours, const contender& theirs,
                      report& out) {
  auto add = [&](const char* figure, double value, const char* unit,
                 double their_value, better when = better::lower) {
    out.add(compare("cluster/" + ours.name + "/" + theirs.name + "/" + figure,
                    value, unit, theirs.shown, their_value, when));
  };
  add("goodput", ours.goodput(), "of calm", theirs.goodput(), better::higher);
  add("pause", median(ours.pauses), "s", median(theirs.pauses));
  add("longest_pause", std::ranges::max(ours.pauses), "s",
      std::ranges::max(theirs.pauses));
  add("return", median(ours.returns), "s", median(theirs.returns));
  add("lost", ours.of_kill(ours.lost), "samples", theirs.of_kill(theirs.lost));
  add("doubled", ours.of_kill(ours.doubled), "samples",
      theirs.of_kill(theirs.doubled));
  add("in_vain", ours.of_kill(ours.in_vain), "samples",
      theirs.of_kill(theirs.in_vain));
}

} // namespace

void measure_killed_workers(const setting& how, report& out) {
  if (!begin_with_python(
        how, out, "two workers, one of which is killed every 15 s (target: 1)"))
    return;
  std::vector<contender> all{{"async", "", true},
                             {"sync", "", true},
                             {"torchrun", "torchrun, DDP, snapshots"}};
  if (has_torchft(how))
    all.push_back({"torchft", "torchft, DDP"});
  else
    std::printf("  left out: torchft, which this Python does not have\n");
  auto lengths = how.quick ? durations{3, 9, 9} : durations{15, 30, 15};
  run_in_turn(all, lengths, how.quick ? 1 : 3, how, out);
  for (const auto& which : all)
    out.add(compare("cluster/" + which.name + "/goodput", median(which.rates),
                    "1/s", "the same without kills", median(which.calm_rates),
                    better::higher));
  for (const auto& ours : all)
    for (const auto& theirs : all)
      if (ours.ours && !theirs.ours)
        compare_recovery(ours, theirs, out);
}

} // namespace troupe::bench
