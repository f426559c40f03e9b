// Two workers and a parameter server, beside two loops with LibTorch alone that
// share nothing.

#include "apps/scratch_folder.hpp"
#include "bench/child.hpp"
#include "bench/topics.hpp"
#include "bench/train/wide_network.hpp"
#include "config/text/failure.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

namespace troupe::bench {

namespace {

using words = std::vector<std::string>;

constexpr uint64_t workers = 2;

/// What is trained.
struct workload {
  std::string name; ///< In the figures.
  std::string network;
  std::string dataset;
  uint64_t batch_size = 0;
  uint64_t gradients = 0; ///< Of both workers together.
  // The same for a quick run:
  uint64_t quick_batch_size = 0;
  uint64_t quick_gradients = 0;
  size_t rounds = 0;
  bool plain = false;  ///< Beside loops with glibc's malloc, too.
  bool faults = false; ///< Page faults, too.
};

const workload lenet_run{"lenet", "lenet", "digits", 64, 1000, 64, 20, 5, true};
const workload resnet_run{"resnet18",
                          "resnet18_cifar",
                          "synthetic(shape=3x32x32,classes=10,samples=2000)",
                          32,
                          40,
                          2,
                          4,
                          3,
                          false};

/// Tensors of 45 MB with little to compute.
workload wide_run(const std::filesystem::path& network) {
  return {"wide",
          "script:" + network.string(),
          "synthetic(shape=1x28x28,classes=10,samples=2000)",
          8,
          400,
          2,
          20,
          5,
          true,
          true};
}

/// Samples a second of a run: of all its gradients but those of the first
/// fifth.
double rate_of(const std::filesystem::path& train_dir, uint64_t updates) {
  std::ifstream in{train_dir / "metrics.jsonl"};
  double begin = 0;
  double end = 0;
  double samples = 0;
  for (std::string text; std::getline(in, text);) {
    auto line = nlohmann::json::parse(text);
    if (line["kind"] != "update")
      continue;
    uint64_t step = line["step"];
    if (step <= updates / 5)
      begin = line["time"];
    else
      samples += line["samples"].get<double>();
    end = line["time"];
  }
  if (end <= begin)
    throw run_error("the run in " + train_dir.string() + " has no updates");
  return samples / (end - begin);
}

class contenders {
public:
  contenders(const setting& how, const workload& what)
    : how_(how), what_(what),
      batch_size_(how.quick ? what.quick_batch_size : what.batch_size),
      gradients_(how.quick ? what.quick_gradients : what.gradients) {
    // nop
  }

  // -- Troupe -----------------------------------------------------------------

  double in_one_process(const std::string& policy) const {
    app::scratch_folder scratch;
    auto command = node(policy, scratch.path());
    command.insert(command.begin() + 1, "--simulate");
    run_child(command);
    return rate_of(scratch.path(), updates(policy));
  }

  double in_processes(const std::string& policy) const {
    app::scratch_folder scratch;
    serve(policy, scratch.path());
    return rate_of(scratch.path(), updates(policy));
  }

  /// Page faults of a gradient, the start of the process left out: by two runs
  /// of different length.
  double faults_in_one_process(const std::string& policy) const {
    auto faults = [&](uint64_t gradients) {
      app::scratch_folder scratch;
      auto all = *this;
      all.gradients_ = gradients;
      auto command = all.node(policy, scratch.path());
      command.insert(command.begin() + 1, "--simulate");
      return run_child(command).page_faults;
    };
    auto half = gradients_ / 2;
    auto more = faults(2 * half) - faults(half);
    return std::max(0., more / static_cast<double>(half));
  }

  /// MiB that the parameter server had resident at most.
  double memory_of_server(const std::string& policy) const {
    app::scratch_folder scratch;
    return serve(policy, scratch.path()).peak_mib;
  }

  // -- LibTorch alone ---------------------------------------------------------

  double loops_in_one_process(const char* program, const char* set_up) const {
    return one_loop_process(program, set_up).rate;
  }

  double faults_of_loops(const char* program, const char* set_up) const {
    return one_loop_process(program, set_up).faults;
  }

  double loops_in_processes(const char* program, const char* set_up) const {
    app::scratch_folder scratch;
    std::vector<std::unique_ptr<child>> all;
    auto out = [&](uint64_t i) {
      return scratch.path() / ("rate-" + std::to_string(i));
    };
    for (uint64_t i = 0; i < workers; ++i)
      all.push_back(std::make_unique<child>(loop(program, set_up, out(i), 1)));
    double sum = 0;
    for (uint64_t i = 0; i < workers; ++i) {
      all[i]->wait();
      sum += read(out(i)).rate;
    }
    return sum;
  }

private:
  struct of_loops {
    double rate = 0;   ///< Samples a second.
    double faults = 0; ///< Page faults of a gradient.
  };

  of_loops one_loop_process(const char* program, const char* set_up) const {
    app::scratch_folder scratch;
    auto out = scratch.path() / "rate";
    run_child(loop(program, set_up, out, workers));
    return read(out);
  }

  /// A server and its workers in processes; what the server cost.
  cost serve(const std::string& policy,
             const std::filesystem::path& train_dir) const {
    auto port = std::to_string(free_port());
    auto server = node(policy, train_dir);
    words role{"--role", "ps", "--port", port};
    server.insert(server.begin() + 1, role.begin(), role.end());
    child ps{server};
    std::vector<std::unique_ptr<child>> others;
    for (uint64_t i = 0; i < workers; ++i)
      others.push_back(
        std::make_unique<child>(words{how_.trainer_node, "--role", "worker",
                                      "--port", port, "--allow-scripts"}));
    for (auto& one : others)
      one->wait();
    return ps.wait();
  }

  /// A step is one gradient, or one of each worker.
  uint64_t updates(const std::string& policy) const {
    return policy == "sync" ? gradients_ / workers : gradients_;
  }

  words node(const std::string& policy,
             const std::filesystem::path& train_dir) const {
    return {how_.trainer_node,
            "--policy",
            policy,
            "--network",
            what_.network,
            "--allow-scripts",
            "--dataset",
            what_.dataset,
            "--batch-size",
            std::to_string(batch_size_),
            "--workers",
            std::to_string(workers),
            "--evaluator",
            "false",
            "--epochs",
            "1000",
            "--max-steps",
            std::to_string(updates(policy)),
            "--train-dir",
            train_dir};
  }

  words loop(const char* program, const char* set_up,
             const std::filesystem::path& out, uint64_t threads) const {
    return {how_.trainer_node.parent_path() / program,
            out,
            set_up,
            std::to_string(threads),
            std::to_string(gradients_ / workers),
            what_.network,
            what_.dataset,
            std::to_string(batch_size_)};
  }

  static of_loops read(const std::filesystem::path& file) {
    std::ifstream in{file};
    of_loops out;
    if (!(in >> out.rate >> out.faults))
      throw run_error("no rate in " + file.string());
    return out;
  }

  const setting& how_;
  const workload& what_;
  uint64_t batch_size_;
  uint64_t gradients_;
};

constexpr const char* with_mimalloc = "troupe_bench_loop";
constexpr const char* with_glibc = "troupe_bench_loop_glibc";

void measure_training(const workload& what, const setting& how, report& out) {
  contenders all{how, what};
  struct entry {
    const char* name;
    std::function<double()> rate;
    std::vector<double> found;
  };
  std::vector<entry> entries{
    {"async/threads", [&] { return all.in_one_process("async"); }, {}},
    {"async/processes", [&] { return all.in_processes("async"); }, {}},
    {"sync/threads", [&] { return all.in_one_process("sync"); }, {}},
    {"sync/processes", [&] { return all.in_processes("sync"); }, {}},
    {"threads",
     [&] { return all.loops_in_one_process(with_mimalloc, "as_troupe"); },
     {}},
    {"processes",
     [&] { return all.loops_in_processes(with_mimalloc, "as_troupe"); },
     {}},
  };
  if (what.plain)
    entries.push_back(
      {"plain",
       [&] { return all.loops_in_processes(with_glibc, "plain"); },
       {}});
  auto rounds = how.quick ? 1 : what.rounds;
  for (size_t round = 0; round < rounds; ++round)
    for (auto& one : entries) {
      out.progress(what.name + ", " + one.name + ", round " +
                   std::to_string(round + 1) + " of " + std::to_string(rounds));
      one.found.push_back(one.rate());
    }
  auto rate = [&](size_t i) {
    return median(entries[i].found);
  };
  for (size_t i = 0; i < 4; ++i) {
    auto name = "train/" + what.name + "/" + entries[i].name;
    auto same = i % 2 == 0 ? 4u : 5u;
    out.add(compare(name, rate(i), "1/s", "two loops, same set-up", rate(same),
                    better::higher));
    if (what.plain)
      out.add(compare(name + "/plain", rate(i), "1/s",
                      "two loops, glibc and contiguous", rate(6),
                      better::higher));
  }
  if (what.faults)
    out.add(compare("train/" + what.name + "/page_faults",
                    all.faults_in_one_process("async"), "1/grad.",
                    "two loops, glibc and contiguous",
                    all.faults_of_loops(with_glibc, "plain"), better::lower));
}

/// Of a server with SGD and momentum, whose workers read a version each and
/// have one gradient waiting each. What any server needs is in that of LeNet.
void measure_memory(const setting& how, report& out) {
  constexpr double versions = 2;
  constexpr double slots = 1;
  constexpr double model = 11'173'962 * 4. / (1 << 20);
  auto most = (versions + slots + workers + workers) * model;
  out.progress("memory of a parameter server");
  auto small = contenders{how, lenet_run}.memory_of_server("async");
  auto large = contenders{how, resnet_run}.memory_of_server("async");
  out.add(compare("train/resnet18/server_memory", large - small, "MiB",
                  "2 versions, slots, one version and gradient a worker", most,
                  better::lower));
}

} // namespace

void measure_lenet(const setting& how, report& out) {
  out.begin("samples a second of two workers: LeNet, batch 64 (targets: 0.97 "
            "of the same two loops, 1.45 of plain ones)");
  measure_training(lenet_run, how, out);
}

void measure_resnet(const setting& how, report& out) {
  out.begin("samples a second of two workers: ResNet-18 at 32x32, batch 32 "
            "(target: 0.97 of the same two loops)");
  measure_training(resnet_run, how, out);
  measure_memory(how, out);
}

void measure_wide(const setting& how, report& out) {
  out.begin("samples a second of two workers: a wide network of 11.1 M "
            "parameters, batch 8 (target: 0.92 of the same two loops)");
  app::scratch_folder scratch;
  auto file = scratch.path() / "wide.pt";
  write_wide_network(file);
  measure_training(wide_run(file), how, out);
}

} // namespace troupe::bench
