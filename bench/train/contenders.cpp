#include "bench/train/contenders.hpp"

#include "actors/log_files/event_log_file.hpp"
#include "apps/scratch_folder.hpp"
#include "apps/startup/resources.hpp"
#include "bench/train/cores.hpp"
#include "config/text/failure.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <memory>
#include <utility>

namespace troupe::bench {

namespace {

using words = std::vector<std::string>;

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

/// The median wait for weights, in seconds, of the gradients in an event log
/// but the first fifth.
double median_wait(const std::filesystem::path& event_log) {
  recording::event_log_reader in{event_log};
  std::vector<double> all;
  for (proto::LogEvent event; in.next(event);)
    if (event.has_arrived())
      all.push_back(event.arrived().wait_seconds());
  if (all.empty())
    throw run_error(event_log.string() + " has no gradients");
  all.erase(all.begin(), all.begin() + static_cast<ptrdiff_t>(all.size() / 5));
  return median(std::move(all));
}

/// The batches of a loop that times so many of them.
uint64_t with_warm_up(uint64_t batches) {
  return batches / 4 + 1 + batches;
}

} // namespace

const workload& lenet_run() {
  static const workload out{"lenet", "lenet", "digits", 64,  1000,
                            8,       8,       5,        true};
  return out;
}

const workload& resnet_run() {
  static const workload out{"resnet18",
                            "resnet18_cifar",
                            "synthetic(shape=3x32x32,classes=10,samples=2000)",
                            32,
                            40,
                            1,
                            4,
                            3,
                            false};
  return out;
}

workload wide_run(const std::filesystem::path& network) {
  return {"wide",
          "script:" + network.string(),
          "synthetic(shape=1x28x28,classes=10,samples=2000)",
          8,
          400,
          2,
          8,
          5,
          true,
          true};
}

contenders::contenders(const setting& how, const workload& job)
  : how_(how), what_(job),
    batch_size_(how.quick ? job.quick_batch_size : job.batch_size),
    gradients_(how.quick ? job.quick_gradients : job.gradients) {
  // nop
}

double contenders::in_one_process(const std::string& policy) const {
  app::scratch_folder scratch;
  run_child(simulated(policy, scratch.path()));
  return rate_of(scratch.path(), updates(policy));
}

double contenders::in_processes(const std::string& policy) const {
  app::scratch_folder scratch;
  serve(policy, scratch.path());
  return rate_of(scratch.path(), updates(policy));
}

double contenders::wait_for_weights(const std::string& policy) const {
  app::scratch_folder scratch;
  serve(policy, scratch.path(), {"--tape", "true"});
  return median_wait(scratch.path() / "tape-1.pb");
}

double contenders::as_peers(const std::string& policy) const {
  app::scratch_folder scratch;
  auto port = std::to_string(app::find_free_port("127.0.0.1"));
  nodes all{what_};
  for (uint64_t rank = 0; rank < what_.workers; ++rank) {
    auto peer = node(policy, scratch.path());
    words role{"--role",        "auto",
               "--topology",    "peers",
               "--rank",        std::to_string(rank),
               "--init-method", "tcp://127.0.0.1:" + port};
    peer.insert(peer.begin() + 1, role.begin(), role.end());
    all.start(peer, rank + 1 == what_.workers);
  }
  all.wait();
  return rate_of(scratch.path(), updates(policy));
}

double contenders::faults_in_one_process(const std::string& policy) const {
  auto faults = [&](uint64_t gradients) {
    app::scratch_folder scratch;
    auto all = *this;
    all.gradients_ = gradients;
    return run_child(all.simulated(policy, scratch.path())).page_faults;
  };
  auto half = gradients_ / 2;
  auto more = faults(2 * half) - faults(half);
  return std::max(0., more / static_cast<double>(half));
}

double contenders::memory_of_server(const std::string& policy) const {
  app::scratch_folder scratch;
  return serve(policy, scratch.path()).peak_mib;
}

double contenders::loops_in_one_process(const char* program,
                                        const char* set_up) const {
  return one_loop_process(program, set_up).rate;
}

double contenders::faults_of_loops(const char* program,
                                   const char* set_up) const {
  return one_loop_process(program, set_up).faults;
}

contenders::cpu_costs contenders::cpu_on_one_core(const std::string& policy,
                                                  const char* program,
                                                  const char* set_up) const {
  auto job = what_;
  job.workers = 1;
  contenders one{how_, job};
  auto core = allowed_cores().front();
  auto seconds = [&](uint64_t gradients) {
    app::scratch_folder scratch;
    one.gradients_ = gradients;
    child troupe{on_core(core, one.simulated(policy, scratch.path()))};
    child loop{
      on_core(core, one.loop(program, set_up, scratch.path() / "rate", 1))};
    return cpu_costs{troupe.wait().time.cpu_seconds,
                     loop.wait().time.cpu_seconds};
  };
  auto round = std::max<uint64_t>(what_.local_steps, 1);
  auto rounds = std::max<uint64_t>(gradients_ / what_.workers / round, 2);
  auto few = rounds / 2 * round;
  auto many = rounds * round;
  auto short_run = seconds(few);
  auto long_run = seconds(many);
  auto of_a_step = [](double of_long, double of_short, uint64_t more) {
    return std::max(0., of_long - of_short) / static_cast<double>(more);
  };
  return {of_a_step(long_run.troupe, short_run.troupe, many - few),
          of_a_step(long_run.loop, short_run.loop,
                    with_warm_up(many) - with_warm_up(few))};
}

double contenders::loops_in_processes(const char* program,
                                      const char* set_up) const {
  app::scratch_folder scratch;
  std::vector<std::unique_ptr<child>> all;
  auto out = [&](uint64_t i) {
    return scratch.path() / ("rate-" + std::to_string(i));
  };
  for (uint64_t i = 0; i < what_.workers; ++i)
    all.push_back(std::make_unique<child>(loop(program, set_up, out(i), 1)));
  double sum = 0;
  for (uint64_t i = 0; i < what_.workers; ++i) {
    all[i]->wait();
    sum += read(out(i)).rate;
  }
  return sum;
}

contenders::of_loops contenders::one_loop_process(const char* program,
                                                  const char* set_up) const {
  app::scratch_folder scratch;
  auto out = scratch.path() / "rate";
  run_child(loop(program, set_up, out, what_.workers));
  return read(out);
}

/// Runs a server and its workers in processes; returns what the server cost.
cost contenders::serve(const std::string& policy,
                       const std::filesystem::path& train_dir,
                       const words& more) const {
  auto port = std::to_string(app::find_free_port("127.0.0.1"));
  auto server = node(policy, train_dir);
  words role{"--role", "ps", "--port", port};
  server.insert(server.begin() + 1, role.begin(), role.end());
  server.insert(server.end(), more.begin(), more.end());
  nodes all{what_};
  all.start(server, false);
  for (uint64_t i = 0; i < what_.workers; ++i)
    all.start({how_.trainer_node, "--role", "worker", "--port", port,
               "--allow-scripts"},
              i + 1 == what_.workers);
  return all.wait();
}

contenders::nodes::nodes(const workload& job)
  : slow_(job.one_is_slow ? std::make_unique<slow_node>() : nullptr),
    environment_(job.environment) {
  // nop
}

void contenders::nodes::start(const words& program, bool last) {
  words command{"/usr/bin/env"};
  command.insert(command.end(), environment_.begin(), environment_.end());
  command.insert(command.end(), program.begin(), program.end());
  all_.push_back(
    std::make_unique<child>(slow_ ? slow_->beside(last, command) : command));
  if (slow_ && last)
    slow_node::slow_down(all_.back()->id());
}

cost contenders::nodes::wait() {
  cost first;
  for (size_t i = all_.size(); i-- > 0;)
    first = all_[i]->wait();
  return first;
}

/// A step is one gradient, one of each worker, or a round of them.
uint64_t contenders::updates(const std::string& policy) const {
  auto pushes = gradients_ / std::max<uint64_t>(what_.local_steps, 1);
  return policy == "sync" ? pushes / what_.workers : pushes;
}

words contenders::node(const std::string& policy,
                       const std::filesystem::path& train_dir) const {
  words out{how_.trainer_node,
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
            std::to_string(what_.workers),
            "--evaluator",
            "false",
            "--epochs",
            "1000",
            "--max-steps",
            std::to_string(updates(policy)),
            "--train-dir",
            train_dir};
  out.insert(out.end(), what_.flags.begin(), what_.flags.end());
  if (what_.local_steps > 0) {
    words local{"--local-steps", std::to_string(what_.local_steps),
                "--inner-optimizer", "sgd(lr=0.001,momentum=0.9)"};
    out.insert(out.end(), local.begin(), local.end());
  }
  return out;
}

words contenders::simulated(const std::string& policy,
                            const std::filesystem::path& train_dir) const {
  auto out = node(policy, train_dir);
  out.insert(out.begin() + 1, "--simulate");
  return out;
}

words contenders::loop(const char* program, const char* set_up,
                       const std::filesystem::path& out,
                       uint64_t threads) const {
  return {how_.trainer_node.parent_path() / program,
          out,
          set_up,
          std::to_string(threads),
          std::to_string(gradients_ / what_.workers),
          what_.network,
          what_.dataset,
          std::to_string(batch_size_)};
}

contenders::of_loops contenders::read(const std::filesystem::path& file) {
  std::ifstream in{file};
  of_loops out;
  if (!(in >> out.rate >> out.faults))
    throw run_error("no rate in " + file.string());
  return out;
}

uint64_t contenders::gradients_of_each() const {
  return gradients_ / what_.workers;
}

std::vector<double> alternate(const std::string& title,
                              const std::vector<measured_run>& runs,
                              size_t rounds, report& out) {
  std::vector<std::vector<double>> found(runs.size());
  for (size_t round = 0; round < rounds; ++round)
    for (size_t i = 0; i < runs.size(); ++i) {
      out.progress(title + ", " + runs[i].name + ", round " +
                   std::to_string(round + 1) + " of " + std::to_string(rounds));
      found[i].push_back(runs[i].rate());
    }
  std::vector<double> medians;
  for (auto& one : found)
    medians.push_back(median(std::move(one)));
  return medians;
}

} // namespace troupe::bench
