// Whole virtual runs without gradients, each in its own process: all actors,
// all messages, all records.

#include "apps/scratch_folder.hpp"
#include "bench/child.hpp"
#include "bench/topics.hpp"
#include "config/schema/policies.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace troupe::bench {

namespace {

constexpr double most_seconds = 10;
constexpr double most_mib = 2048;

/// In smaller clusters a run takes less than the start of its process.
constexpr uint32_t least_for_growth = 100;

struct cluster_size {
  uint32_t workers;
  uint32_t steps; ///< Of each worker.
};

std::string text_of(const cluster_size& x) {
  return std::to_string(x.workers) + "x" + std::to_string(x.steps);
}

/// The updates of a run: each is a step of all workers, or of one gradient.
uint64_t updates_of(const std::string& policy, const cluster_size& x) {
  auto one_by_one = policy == "ssp" || policy == "async";
  return one_by_one ? uint64_t{x.workers} * x.steps : x.steps;
}

cost run_cluster(const setting& how, const std::string& policy,
                 const cluster_size& x) {
  app::scratch_folder scratch;
  return run_child(
    {how.trainer_node, "--simulate", "--clock", "virtual", "--gradients",
     "none", "--compute-time", "gamma(mean=1,cv=0.1)", "--policy", policy,
     "--workers", std::to_string(x.workers), "--max-steps",
     std::to_string(updates_of(policy, x)), "--train-dir", scratch.path()});
}

/// The medians of runs of all policies and sizes, in turn.
class runs {
public:
  runs(std::vector<cluster_size> sizes, size_t rounds)
    : sizes_(std::move(sizes)), rounds_(rounds) {
    // nop
  }

  void make(const setting& how, report& out) {
    for (size_t round = 0; round < rounds_; ++round)
      for (const auto& x : sizes_)
        for (const auto& policy : config::policy_names()) {
          out.progress("round " + std::to_string(round + 1) + " of " +
                       std::to_string(rounds_) + ": " + policy + " " +
                       text_of(x));
          found_[{policy, x.workers}].push_back(run_cluster(how, policy, x));
        }
  }

  cost of(const std::string& policy, const cluster_size& x) const {
    const auto& all = found_.at({policy, x.workers});
    auto median_of = [&](auto value) {
      std::vector<double> xs;
      for (const auto& one : all)
        xs.push_back(value(one));
      return median(std::move(xs));
    };
    return {{median_of([](const cost& one) { return one.time.seconds; }),
             median_of([](const cost& one) { return one.time.cpu_seconds; })},
            median_of([](const cost& one) { return one.peak_mib; })};
  }

private:
  std::vector<cluster_size> sizes_;
  size_t rounds_;
  std::map<std::pair<std::string, uint32_t>, std::vector<cost>> found_;
};

/// Microseconds of one core for a gradient of a worker, without the start of
/// the process.
double per_gradient(const cost& whole, const cost& beginning,
                    const cluster_size& x) {
  return (whole.time.cpu_seconds - beginning.time.cpu_seconds) * 1e6 /
         (double(x.workers) * x.steps);
}

void show(const runs& all, const std::vector<cluster_size>& sizes,
          const std::string& policy, report& out) {
  auto name = "simulate/run/" + policy + "/";
  auto beginning = all.of(policy, sizes[0]);
  for (size_t i = 1; i < sizes.size(); ++i) {
    auto place = name + text_of(sizes[i]);
    auto found = all.of(policy, sizes[i]);
    const auto* target = "target for 10000x100";
    out.add(compare(place + "/seconds", found.time.seconds, "s", target,
                    most_seconds, better::lower));
    out.add(compare(place + "/cpu_seconds", found.time.cpu_seconds, "s", target,
                    most_seconds, better::lower));
    out.add(compare(place + "/peak_memory", found.peak_mib, "MiB", target,
                    most_mib, better::lower));
    if (sizes[i].workers < least_for_growth * 10)
      continue;
    const auto& smaller = sizes[i - 1];
    out.add(compare(place + "/gradient",
                    per_gradient(found, beginning, sizes[i]), "us",
                    "a gradient of " + text_of(smaller),
                    per_gradient(all.of(policy, smaller), beginning, smaller),
                    better::lower));
  }
}

} // namespace

void measure_growth(const setting& how, report& out) {
  auto steps = how.quick ? 2u : 100u;
  std::vector<cluster_size> sizes{{2, 1}};
  for (auto workers : {10u, 100u, 1000u, 10000u})
    if (!how.quick || workers == 100)
      sizes.push_back({workers, steps});
  out.begin("whole runs without gradients: all actors, messages and records");
  runs all{sizes, how.quick ? 1u : 3u};
  all.make(how, out);
  for (const auto& policy : config::policy_names())
    show(all, sizes, policy, out);
}

} // namespace troupe::bench
