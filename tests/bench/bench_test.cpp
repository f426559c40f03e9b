// Whether the benchmarks work and say what they should, never how fast it was.

#include "tests/support/process.hpp"
#include "tests/support/temporary_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

#include <set>

using namespace troupe;

namespace {

/// The measurements take what they take: most of a minute on two idle cores.
constexpr std::chrono::seconds patience{280};

testing::child bench(const testing::temporary_folder& folder,
                     std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), TROUPE_BENCH);
  return testing::child{arguments, folder / "bench"};
}

} // namespace

TEST_CASE("a bench shows each figure beside its reference, and keeps it") {
  testing::temporary_folder folder;
  auto file = folder / "figures.json";
  auto run = bench(folder, {"simulate", "--quick", "--json", file.string()});
  auto status = run.wait(patience);
  INFO(run.report());
  REQUIRE(status == 0);
  auto found = nlohmann::json::parse(testing::slurp(file));
  REQUIRE(found.is_array());
  std::set<std::string> names;
  for (const auto& x : found) {
    CHECK(x.size() == 6);
    auto name = x.at("name").get<std::string>();
    INFO(name);
    CHECK(name.starts_with("simulate/"));
    CHECK(names.insert(name).second);
    CHECK(x.at("value").get<double>() > 0);
    CHECK_FALSE(x.at("unit").get<std::string>().empty());
    CHECK_FALSE(x.at("reference").get<std::string>().empty());
    CHECK(x.at("reference_value").get<double>() > 0);
    CHECK(x.at("ratio").get<double>() > 0);
    CHECK(run.said(name));
  }
  for (std::string policy : {"sync", "backup", "ssp", "async"}) {
    INFO(policy);
    CHECK(names.contains("simulate/policy/" + policy + "/16"));
    CHECK(names.contains("simulate/step_scheduler/" + policy + "/10000"));
    CHECK(names.contains("simulate/run/" + policy + "/100x2/seconds"));
    CHECK(names.contains("simulate/run/" + policy + "/100x2/peak_memory"));
  }
  CHECK(names.contains("simulate/real_gradients/sync/cpu"));
  CHECK(names.contains("simulate/real_gradients/async/wall"));
}

TEST_CASE("transport, server, data, train and parallel have their figures") {
  testing::temporary_folder folder;
  auto file = folder / "figures.json";
  auto run =
    bench(folder, {"transport", "server", "data", "train/lenet",
                   "train/resnet18", "train/wide", "train/local_steps/lenet",
                   "parallel", "--quick", "--json", file.string()});
  auto status = run.wait(patience);
  INFO(run.report());
  REQUIRE(status == 0);
  std::set<std::string> names;
  for (const auto& x : nlohmann::json::parse(testing::slurp(file))) {
    names.insert(x.at("name").get<std::string>());
    // Of so few steps the CPU's seconds are less than those of a start differ.
    auto few = x.at("name") == "train/local_steps/lenet/cpu";
    auto may_be_none = few || x.at("name") == "train/wide/page_faults";
    CHECK(x.at("value").get<double>() > (may_be_none ? -1 : 0));
    CHECK(x.at("reference_value").get<double>() > (few ? -1 : 0));
  }
  for (std::string how : {"fp16", "bf16", "int8", "topk(share=0.01)"})
    for (std::string what : {"/pack", "/unpack"})
      CHECK(names.contains("transport/compression/" + how + what));
  for (std::string part :
       {"remote_forward/threads", "remote_forward/processes",
        "remote_control/step", "pipeline/speed_up", "pipeline/rate",
        "contexts/memory", "peers/lenet/star", "peers/resnet18/star",
        "peers/wide/star", "peers/wide/stream/2/star",
        "peers/wide/stream/4/star", "slow_peer/lenet/star",
        "slow_peer/resnet18/star"})
    CHECK(names.contains("parallel/" + part));
  for (std::string part :
       {"sgd", "sgd_read", "sgd_and_finite", "finite", "adam"})
    CHECK(names.contains("server/step/resnet18/2/" + part));
  for (std::string part : {"cifar/crop_flip", "jpeg/resized_crop"})
    CHECK(names.contains("data/" + part));
  CHECK(names.contains("transport/stream/45MB/4/push_pull"));
  CHECK(names.contains("transport/stream_tls/45MB/2/push_pull"));
  CHECK(names.contains("transport/stream_tls/1.7MB/1/push_pull_cpu"));
  CHECK(names.contains("transport/stream_tls/45MB/1/loopback"));
  CHECK(names.contains("transport/stream_tls/lenet/async"));
  CHECK(names.contains("transport/overlap/lenet/1Gbit/step"));
  CHECK(names.contains("transport/overlap/resnet18_cifar/10Gbit/step"));
  CHECK(names.contains("transport/inproc/1.7MB/1/push_add_pull"));
  CHECK(names.contains("transport/shm/4KB/2/push_add_pull"));
  CHECK(names.contains("transport/shm/45MB/2/push_add_pull_versions"));
  for (std::string policy : {"async", "sync"})
    for (std::string cluster : {"threads", "processes"}) {
      CHECK(names.contains("train/lenet/" + policy + "/" + cluster));
      CHECK(names.contains("train/lenet/" + policy + "/" + cluster + "/plain"));
      CHECK(names.contains("train/resnet18/" + policy + "/" + cluster));
      CHECK(names.contains("train/wide/" + policy + "/" + cluster));
    }
  CHECK(names.contains("train/wide/page_faults"));
  CHECK(names.contains("train/local_steps/lenet"));
  CHECK(names.contains("train/local_steps/lenet/cpu"));
  CHECK(names.contains("train/resnet18/server_memory"));
}

namespace {

/// The figures of these topics, which need a Python with torch.
std::set<std::string> python_figures(std::vector<std::string> topics) {
  std::string python = TROUPE_PYTHON;
  if (python.empty())
    SKIP("no Python with torch");
  testing::temporary_folder folder;
  auto file = folder / "figures.json";
  for (const auto& word : {std::string{"--quick"}, std::string{"--python"},
                           python, std::string{"--json"}, file.string()})
    topics.push_back(word);
  auto run = bench(folder, topics);
  auto status = run.wait(patience);
  INFO(run.report());
  REQUIRE(status == 0);
  std::set<std::string> out;
  for (const auto& x : nlohmann::json::parse(testing::slurp(file))) {
    out.insert(x.at("name").get<std::string>());
    CHECK(x.at("value").get<double>() > 0);
    CHECK(x.at("reference_value").get<double>() > 0);
  }
  return out;
}

} // namespace

TEST_CASE("Python's workers have their figures") {
  CHECK(
    python_figures({"python/lenet"}) ==
    std::set<std::string>{"python/lenet/async/loops", "python/lenet/async/cpp",
                          "python/lenet/async/rpc", "python/lenet/sync/loops",
                          "python/lenet/sync/cpp", "python/lenet/sync/rpc",
                          "python/lenet/sync/ddp"});
}

TEST_CASE("Python's steps and its start have their figures") {
  CHECK(python_figures({"python/step", "python/start"}) ==
        std::set<std::string>{
          "python/step/4KB", "python/step/4KB/worker", "python/step/4KB/views",
          "python/step/4KB/views/worker", "python/step/45MB",
          "python/step/45MB/worker", "python/step/45MB/views",
          "python/step/45MB/views/worker", "python/start/import",
          "python/start/first_step"});
}

TEST_CASE("without a Python peers are left out, in plain words") {
  testing::temporary_folder folder;
  for (const auto* topic : {"peers/lenet", "cluster", "python"}) {
    auto run = bench(folder, {topic});
    CHECK(run.wait() == 0);
    CHECK(
      run.said("left out: name a Python that has torch, with --python FILE"));
  }
  auto wrong = bench(folder, {"peers", "--python", "/nowhere/python3"});
  CHECK(wrong.wait() == 2);
  CHECK(wrong.err() ==
        "troupe_bench: --python /nowhere/python3: there is no such file\n");
}

TEST_CASE("a topic that is not there is named in one line") {
  testing::temporary_folder folder;
  auto run = bench(folder, {"simulat"});
  CHECK(run.wait() == 2);
  CHECK(run.err() ==
        "troupe_bench: no such topic: simulat; there are: transport/paths, "
        "transport/overlap, transport/encryption, transport/compression, "
        "server/step, data/batches, train/lenet, train/resnet18, train/wide, "
        "train/local_steps/lenet, train/local_steps/resnet18, "
        "train/local_steps/wide, train/local_steps/exchange, "
        "parallel/remote_forward, parallel/remote_control, "
        "parallel/pipeline, parallel/contexts, parallel/peers, "
        "parallel/peers_over_stream, parallel/slow_peer, "
        "peers/lenet, peers/resnet18, peers/wide, "
        "cluster/killed_workers, "
        "python/lenet, python/step, python/start, "
        "simulate/policy_events, "
        "simulate/growth, "
        "simulate/real_gradients\n");
  CHECK(run.out().empty());
}
