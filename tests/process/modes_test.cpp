// Networks in segments, as users start them: in processes, resumed in another
// mode, and with all that can be wrong about them.

#include "tests/process/process_fixture.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <csignal>

using namespace troupe::testing;

namespace {

const flags remote{"--mode", "remote-forward"};
const flags two_stages{"--mode", "pipeline",        "--stages",
                       "2",      "--micro-batches", "4"};

const flags short_run{"--network",    "mnist_net", "--workers",   "2",
                      "--batch-size", "16",        "--max-steps", "10",
                      "--threads",    "1"};

/// Batch normalisation; each test gives the micro-batches itself.
const flags resnet{
  "--network",    "resnet20",
  "--dataset",    "synthetic(shape=3x16x16,classes=4,samples=200)",
  "--workers",    "2",
  "--batch-size", "8",
  "--max-steps",  "5",
  "--threads",    "1"};

std::string weights_of(process_fixture& on) {
  return on.summary()["weights_sha256"];
}

/// Ends with `status` and one line that holds `line`.
void check_refused(process_fixture& on, const flags& options, int status,
                   const std::string& line) {
  auto who = on.simulate(short_run + options);
  check_end(who, status);
  INFO(who.report());
  CHECK(who.err().starts_with("trainer_node: "));
  CHECK(who.err().find(line) != std::string::npos);
  CHECK(std::ranges::count(who.err(), '\n') == 1);
  CHECK_FALSE(std::filesystem::exists(on.run() / "metrics.jsonl"));
}

} // namespace

TEST_CASE("every mode makes the weights of whole networks, with threads") {
  process_fixture whole;
  auto local = whole.simulate(short_run + flags{"--micro-batch-size", "4"});
  check_end(local, 0);
  for (const auto& how :
       {remote + flags{"--micro-batch-size", "4"},
        remote + flags{"--micro-batch-size", "4", "--placement",
                       "conv*=ps:0,fc1=worker,fc2=ps:0"},
        two_stages, two_stages + flags{"--schedule", "gpipe"}}) {
    process_fixture on;
    auto all = on.simulate(short_run + how);
    check_end(all, 0);
    CHECK(weights_of(on) == weights_of(whole));
    CHECK(on.summary()["mode"] == how[1]);
  }
}

TEST_CASE("a pipeline is a worker in a process of its own") {
  process_fixture whole;
  auto local = whole.simulate(short_run + flags{"--micro-batch-size", "4"});
  check_end(local, 0);
  // With --overlap other workers begin on weights that are still arriving.
  for (const auto& path :
       {flags{}, flags{"--transport", "stream", "--overlap", "on"}}) {
    process_fixture on;
    auto server = on.listening_server(short_run + two_stages);
    auto one = on.worker(path);
    auto other = on.worker(path);
    check_end(server, 0);
    check_end(one, 0);
    check_end(other, 0);
    CHECK(weights_of(on) == weights_of(whole));
    auto share = on.summary()["bubble_share"].get<double>();
    CHECK(share > 0);
    CHECK(share < 1);
  }
}

TEST_CASE("a script lives on the server as a whole") {
  process_fixture on;
  auto file = (on.home() / "net.pt").string();
  child writes{{TROUPE_WRITE_SCRIPT, file, "1"}, on.home() / "write"};
  check_end(writes, 0);
  const flags script{"--network", "script:" + file, "--allow-scripts"};
  auto local = on.simulate(short_run + script);
  check_end(local, 0);
  process_fixture there;
  auto all = there.simulate(short_run + script + remote);
  check_end(all, 0);
  CHECK(weights_of(there) == weights_of(on));
  process_fixture cut;
  check_refused(cut, script + flags{"--mode", "pipeline", "--stages", "2"}, 2,
                "can be cut into at most 1 part");
}

TEST_CASE("the network is on the server, and workers in processes") {
  process_fixture whole;
  auto what = resnet + flags{"--micro-batch-size", "4"};
  auto local = whole.simulate(what);
  check_end(local, 0);
  for (const char* path : {"shm", "stream", "chunked"})
    for (const auto& placement :
         {flags{}, flags{"--placement", "layer1*=ps:0,*=worker"}}) {
      INFO(path);
      process_fixture on;
      auto server = on.listening_server(what + remote + placement);
      auto scores = on.evaluator({}); // First: the run is short.
      auto one = on.worker({"--transport", path});
      auto other = on.worker({"--transport", path});
      check_end(server, 0);
      check_end(one, 0);
      check_end(other, 0);
      check_end(scores, 0);
      CHECK(weights_of(on) == weights_of(whole));
      CHECK(on.summary()["contexts_left"] == 0);
      CHECK(on.summary()["transport"]["worker-0"] == path);
    }
}

TEST_CASE("modules are on shards in processes of their own, one by one or as a "
          "pipeline") {
  const flags in_parts{"--micro-batch-size", "2"};
  const flags pipeline{"--mode", "pipeline", "--micro-batches", "4"};
  process_fixture whole;
  auto local = whole.simulate(resnet + in_parts);
  check_end(local, 0);
  struct row {
    int shards;
    flags mode;
    const char* placement;
    const char* path;
  };
  const row table[] = {
    {2, remote + in_parts, "layer*=ps:1,fc=ps:0,*=worker", "shm"},
    {2, remote + in_parts, "layer1*=ps:1,*=ps:0", "stream"},
    {3, remote + in_parts, "layer1*=ps:2,layer2*=ps:1,*=worker", "chunked"},
    {2, pipeline, "layer3* fc=ps:0,layer2*=ps:1,*=worker", "auto"},
    {3, pipeline + flags{"--schedule", "gpipe"},
     "layer3* fc=ps:2,layer2*=ps:1,*=ps:0", "auto"},
  };
  for (const auto& [shards, mode, placement, path] : table) {
    INFO(placement);
    process_fixture on;
    sharded_server all{on, shards,
                       resnet + mode + flags{"--placement", placement}};
    auto scores = on.evaluator({}); // First: the run is short.
    auto one = on.worker({"--transport", path});
    auto other = on.worker({"--transport", path});
    all.check_ends(0);
    for (auto* who : {&one, &other, &scores})
      check_end(*who, 0);
    CHECK(weights_of(on) == weights_of(whole));
    CHECK(on.summary()["shards"] == shards);
    if (mode != remote + in_parts) {
      auto share = on.summary()["bubble_share"].get<double>();
      CHECK(share > 0);
      CHECK(share < 1);
    }
  }
}

TEST_CASE("a trainer whose modules are on two shards dies, and a run goes on "
          "after its shard") {
  process_fixture on{recorded};
  const flags what = flags{"--network", "mnist_net",   "--workers",
                           "2",         "--policy",    "async",
                           "--epochs",  "4",           "--checkpoint-freq",
                           "5",         "--placement", "conv*=ps:1,*=ps:0"} +
                     remote;
  sharded_server first{on, 2, what};
  auto one = on.worker();
  auto other = on.worker();
  for (uint64_t step : {4, 8, 12}) {
    on.await(first.lead, "training", is_step(step));
    other.signal(SIGKILL);
    other.wait();
    other = on.worker();
  }
  first.others.front().signal(SIGKILL);
  first.others.front().wait();
  check_end(first.lead, 1);
  CHECK(first.lead.err().find("shard 1") != std::string::npos);
  for (auto* who : {&one, &other}) { // Told of the end, or waiting.
    who->signal(SIGKILL);
    who->wait();
  }
  sharded_server again{on, 2, what + flags{"--resume", "auto"}};
  one = on.worker();
  other = on.worker();
  again.check_ends(0);
  check_end(one, 0);
  check_end(other, 0);
  check_completed(on, 4);
  CHECK(on.summary()["contexts_left"] == 0);
}

TEST_CASE("a trainer that dies takes its contexts along") {
  process_fixture on{recorded};
  auto server =
    on.listening_server(flags{"--network", "mnist_net", "--workers", "2",
                              "--policy", "async", "--epochs", "4"} +
                        remote);
  auto one = on.worker();
  auto other = on.worker();
  for (uint64_t step : {4, 8, 12}) {
    on.await(server, "training", is_step(step));
    other.signal(SIGKILL);
    other.wait();
    other = on.worker();
  }
  check_end(server, 0);
  check_end(one, 0);
  check_end(other, 0);
  check_completed(on, 4);
  CHECK(on.summary()["contexts_left"] == 0);
}

TEST_CASE("a server that is killed and resumed has its trainers back") {
  process_fixture on{recorded};
  const flags what = flags{"--network", "mnist_net", "--workers",         "1",
                           "--epochs",  "4",         "--checkpoint-freq", "5"} +
                     remote;
  auto server = on.listening_server(what);
  auto one = on.worker();
  on.await(server, "training", is_step(12));
  server.signal(SIGKILL);
  server.wait();
  auto again = on.listening_server(what + flags{"--resume", "auto"});
  check_end(again, 0);
  check_end(one, 0);
  check_completed(on, 4);
  CHECK(on.summary()["contexts_left"] == 0);
}

TEST_CASE("a run goes on in another mode, when that is said") {
  process_fixture whole;
  auto longer = short_run + flags{"--max-steps", "20"};
  auto all = whole.simulate(longer);
  check_end(all, 0);
  const flags there{"--change", "parallel.mode=remote-forward"};
  const flags back{"--change", "parallel.mode=data-parallel"};
  for (const auto& [before, after] :
       {std::pair{remote, back}, std::pair{flags{}, there}}) {
    process_fixture on;
    auto first = on.simulate(short_run + before);
    check_end(first, 0);
    auto refused =
      on.simulate(flags{"--resume", "auto", "--max-steps", "20"} +
                  (before.empty() ? remote : flags{"--mode", "data-parallel"}));
    check_end(refused, 2);
    auto rest =
      on.simulate(flags{"--resume", "auto", "--max-steps", "20"} + after);
    check_end(rest, 0);
    CHECK(weights_of(on) == weights_of(whole));
  }
}

TEST_CASE("a file says where modules live") {
  process_fixture on;
  spill(on.home() / "cluster.ini", "[parallel]\n"
                                   "mode = remote-forward\n"
                                   "[placement]\n"
                                   "conv* = ps:0 ; on the server\n"
                                   "* = worker:cpu\n");
  auto all = on.simulate(
    short_run + flags{"--config", (on.home() / "cluster.ini").string()});
  check_end(all, 0);
  CHECK(on.summary()["contexts_left"] == 0);
  auto kept = slurp(on.run() / "config.ini");
  CHECK(kept.find("placement = conv*=ps:0,*=worker") != std::string::npos);
  spill(on.home() / "cluster.ini", "[placement]\n"
                                   "conv* = ps:0\n"
                                   "fc1 = server\n");
  process_fixture other;
  check_refused(other, {"--config", (on.home() / "cluster.ini").string()}, 2,
                "cluster.ini:3: [placement] fc1 = server: ");
}

TEST_CASE("the examples of PyTorch's tutorials run") {
  const std::string examples = TROUPE_EXAMPLES;
  process_fixture on;
  auto file = examples + "/remote-forward.ini";
  auto server = on.listening_server({"--config", file, "--max-steps", "150"});
  auto scores = on.evaluator({"--config", file});
  auto one = on.worker({"--config", file});
  auto other = on.worker({"--config", file});
  check_end(server, 0);
  check_end(one, 0);
  check_end(other, 0);
  check_end(scores, 0);
  CHECK(on.summary()["mode"] == "remote-forward");
  CHECK(on.summary()["final_accuracy"] > 0.7);
  process_fixture alone;
  auto all = alone.simulate({"--config", examples + "/model-parallel.ini"});
  check_end(all, 0);
  CHECK(alone.summary()["steps"] == 8);
  CHECK(alone.summary()["bubble_share"] > 0);
}

TEST_CASE("what is wrong with a cut is one line") {
  struct row {
    flags what;
    const char* line;
  };
  const row table[] = {
    {{"--stages", "2"}, "--stages 2: is for --mode pipeline"},
    {{"--placement", "*=worker"}, "is for --mode remote-forward and --mode"},
    {{"--mode", "pipeline"}, "--mode pipeline: needs to know where"},
    {{"--mode", "pipeline", "--stages", "9"},
     "--stages 9: network 'mnist_net' can be cut into at most "},
    {{"--mode", "pipeline", "--stages", "2", "--micro-batches", "3"},
     "--micro-batches 3: must divide the batch of 16 samples"},
    {{"--mode", "pipeline", "--stages", "2", "--micro-batch-size", "2"},
     "a pipeline has --micro-batches"},
    {{"--mode", "pipeline", "--stages", "3", "--placement",
      "conv*=worker,*=worker"},
     "contradicts [placement], which has 2 lines"},
    {{"--mode", "pipeline", "--placement", "conv1=worker,fc1=worker,*=worker"},
     "its modules must follow each other"},
    {{"--mode", "remote-forward", "--placement", "body=ps:0,*=worker"},
     "'body' has no effect"},
    {{"--mode", "remote-forward", "--placement", "conv*=ps:0"},
     "no line says where fc1 is; add one, as in '* = worker'"},
    {{"--mode", "remote-forward", "--placement", "*=ps:1"},
     "ps:1 is not one of the 1 shards"},
    {{"--mode", "remote-forward", "--placement", "*=ps:0:cuda:16"},
     "device 'cuda:16' must be cpu, cuda, or cuda:N"},
    {{"--mode", "remote-forward", "--compression", "fp16"},
     "is for gradients on their way to the server"},
    {{"--mode", "remote-forward", "--clock", "virtual", "--gradients", "none"},
     "computes no network that could be cut"},
    {{"--mode", "both"}, "--mode both: "},
  };
  for (const auto& [what, line] : table) {
    process_fixture on;
    check_refused(on, what, 2, line);
  }
  const flags on_shards = flags{"--role", "ps", "--rank", "0"} + with_shards(2);
  const row shards[] = {
    {{}, "gives no part of the network to the shard of rank 1: add a line"},
    {{"--placement", "*=ps:1"},
     "gives no part of the network to the shard of rank 0: add a line"},
    {{"--placement", "conv*=ps:1,*=ps:2"}, "ps:2 is not one of the 2 shards"},
    {{"--placement", "conv*=ps:1,*=ps:0", "--freeze", "conv*"},
     "needs all modules of servers in one process: leave --rank out"},
  };
  for (const auto& [what, line] : shards) {
    process_fixture on;
    auto who = on.start("lead", short_run + on_shards + remote + what);
    check_end(who, 2);
    INFO(who.report());
    CHECK(who.err().find(line) != std::string::npos);
    CHECK(std::ranges::count(who.err(), '\n') == 1);
  }
}
