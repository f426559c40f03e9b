// Shards of the parameter server in processes of their own, with real workers.

#include "tests/process/process_fixture.hpp"

#include <catch2/catch_test_macros.hpp>

#include <csignal>
#include <thread>

using namespace troupe::testing;

namespace {

const flags two_epochs{"--policy",    "sync", "--workers", "2",
                       "--epochs",    "2",    "--seed",    "5",
                       "--optimizer", "adam", "--lr",      "0.001"};

json summary_of_one_process(const flags& options) {
  process_fixture on;
  auto lead = on.listening_server(options);
  auto evaluator = on.evaluator({"--threads", "1"});
  auto first = on.worker({"--threads", "1"});
  auto second = on.worker({"--threads", "1"});
  for (auto* one : {&lead, &first, &second, &evaluator})
    check_end(*one, 0);
  return on.summary();
}

json summary_of(int shards, const flags& options) {
  process_fixture on;
  sharded_server all{on, shards, options};
  auto evaluator = on.evaluator({"--threads", "1"});
  auto first = on.worker({"--threads", "1"});
  auto second = on.worker({"--threads", "1"});
  all.check_ends(0);
  for (auto* one : {&first, &second, &evaluator})
    check_end(*one, 0);
  auto out = on.summary();
  CHECK(out["status"] == "completed");
  CHECK(out["shards"] == shards);
  return out;
}

} // namespace

TEST_CASE("shards in processes of their own make the weights of one") {
  auto expected = summary_of_one_process(two_epochs);
  for (std::string path : {"auto", "stream", "chunked"}) {
    INFO(path);
    check_same_result(summary_of(3, two_epochs + flags{"--transport", path}),
                      expected);
  }
}

// A cut is a multiple of the numbers that have a scale in common.
TEST_CASE("remote shards unpack what one server unpacks") {
  for (std::string how : {"bf16", "int8"}) {
    INFO(how);
    auto compressed = two_epochs + flags{"--compression", how};
    check_same_result(summary_of(3, compressed),
                      summary_of_one_process(compressed));
  }
}

TEST_CASE("remote shards take fragments, compressed ones too, and have their "
          "parts of these") {
  auto how = two_epochs + flags{"--local-steps", "4", "--fragments",   "3",
                                "--clip-norm",   "1", "--compression", "bf16"};
  check_same_result(summary_of(3, how), summary_of_one_process(how));
}

TEST_CASE("the lead of remote shards sees to a network's statistics") {
  const flags what{
    "--network",    "resnet20",
    "--dataset",    "synthetic(shape=3x32x32,classes=10,samples=64)",
    "--batch-size", "16",
    "--workers",    "2",
    "--epochs",     "1"};
  check_same_result(summary_of(2, what), summary_of_one_process(what));
}

TEST_CASE("remote shards have the rate of a step and its exclusions") {
  auto recipe = two_epochs + flags{"--lr-schedule",          "cosine",
                                   "--warmup-epochs",        "0.5",
                                   "--weight-decay",         "0.1",
                                   "--weight-decay-exclude", "bias"};
  auto one = summary_of_one_process(recipe);
  auto three = summary_of(3, recipe);
  CHECK(three["state_sha256"] == one["state_sha256"]);
  CHECK(three["best_weights"] == "best.safetensors");
  auto decaying = recipe;
  decaying.back() = "none";
  CHECK(summary_of(2, decaying)["weights_sha256"] != one["weights_sha256"]);
}

TEST_CASE("remote shards limit the norm of the whole gradient") {
  auto clipped = two_epochs + flags{"--clip-norm", "0.5"};
  auto one = summary_of_one_process(clipped);
  check_same_result(summary_of(3, clipped), one);
  CHECK(one["weights_sha256"] != summary_of(2, two_epochs)["weights_sha256"]);
}

TEST_CASE("remote shards have groups, factors and an average") {
  auto recipe = two_epochs + flags{"--optimizer",    "lamb",
                                   "--lr",           "0.005",
                                   "--weight-decay", "0.01",
                                   "--ema-decay",    "0.9",
                                   "--clip-norm",    "1",
                                   "--best-by",      "max(ema/accuracy)",
                                   "--param-groups", "fc1.*=lr=0.01"};
  auto one = summary_of_one_process(recipe);
  auto three = summary_of(3, recipe);
  CHECK(three["state_sha256"] == one["state_sha256"]);
  CHECK(one["best_metric"]["name"] == "ema/accuracy");
  CHECK(one["final_metrics"].contains("ema/loss"));
  CHECK(three["final_metrics"] == one["final_metrics"]);
  CHECK(one["final_metrics"]["ema/loss"] != one["final_metrics"]["loss"]);
  auto even = recipe;
  even.back() = "fc1.*=lr=0.005";
  CHECK(summary_of(2, even)["weights_sha256"] != one["weights_sha256"]);
}

TEST_CASE("workers come and go while there are remote shards") {
  for (std::string policy : {"async", "sync", "backup"}) {
    INFO(policy);
    auto is_first = policy == "async";
    flags clip;
    if (policy == "async" || policy == "backup")
      clip = {"--clip-norm", "1"};
    process_fixture on{recorded};
    sharded_server all{on, 2,
                       flags{"--policy", policy, "--workers", "2", "--epochs",
                             is_first ? "12" : "8", "--checkpoint-freq", "10"} +
                         clip};
    auto stays = on.worker();
    auto from = on.await(all.lead, "a member", is_kind("joined"));
    for (int i = 0; i < (is_first ? 2 : 1); ++i) { // One comes after another.
      auto dies = on.worker();
      dies.await("connected ");
      from = on.await(all.lead, "an update", is_kind("update"), from);
      dies.kill();
      from = on.await(all.lead, "that it left", is_kind("left"), from);
    }
    all.check_ends(0);
    check_end(stays, 0);
    auto kept = committed_of(on.metrics());
    auto summary = on.summary();
    INFO(summary.dump(2));
    CHECK(summary["status"] == "completed");
    CHECK(summary["samples_applied"] == kept.samples);
    CHECK(settled_in(on.run() / "checkpoints" /
                     checkpoints_of(on.run()).back()) == kept.samples);
    check_replayed(on);
  }
}

TEST_CASE("a lead that is killed finds its shards again, and another number "
          "of them resumes") {
  process_fixture on{recorded};
  const flags what{"--workers",         "2",  "--epochs", "12",
                   "--checkpoint-freq", "10", "--policy", "async"};
  sharded_server all{on, 3, what};
  std::vector<child> workers;
  for (int i = 0; i < 2; ++i)
    workers.push_back(on.worker());
  auto saved = on.await(all.lead, "a checkpoint", is_kind("checkpoint"));
  on.await(all.lead, "more than it holds", is_kind("update"), saved);
  all.lead.kill();
  all.lead = on.server(flags{"--rank", "0"} + with_shards(3) + what +
                       flags{"--resume", "auto"});
  auto resumed = on.await(all.lead, "that it goes on", is_kind("resumed"));
  on.await(all.lead, "an update", is_kind("update"), resumed);
  all.lead.kill();
  for (auto& one : all.others)
    one.kill();
  all.lead = on.server(what + flags{"--resume", "auto"});
  check_end(all.lead, 0);
  for (auto& worker : workers)
    check_end(worker, 0);
  CHECK(on.summary()["status"] == "completed");
  CHECK(committed_of(on.metrics()).resumes == 2);
  check_replayed(on);
}

TEST_CASE("a shard that dies ends the run with one line, and it can be "
          "resumed") {
  process_fixture on{recorded};
  const flags what{"--workers",         "1",  "--epochs", "12",
                   "--checkpoint-freq", "10", "--policy", "async"};
  sharded_server all{on, 2, what};
  auto worker = on.worker();
  on.await(all.lead, "a checkpoint", is_kind("checkpoint"));
  all.others.front().kill();
  check_end(all.lead, 1);
  CHECK(all.lead.err().find("parameter server shard 1 at 127.0.0.1:") !=
        std::string::npos);
  CHECK(on.summary()["status"] == "failed");
  auto again = on.server(flags{"--rank", "0"} + with_shards(2) + what +
                         flags{"--resume", "auto"});
  auto shard = on.shard(1, with_shards(2));
  check_end(again, 0);
  check_end(shard, 0);
  check_end(worker, 0);
  check_replayed(on);
}

TEST_CASE("a signal while a step waits for a shard that stands still saves "
          "whole steps") {
  for (bool wakes : {true, false}) {
    INFO(wakes);
    process_fixture on{recorded};
    const flags soon{"--liveness-timeout", "2"};
    sharded_server all{on, 3,
                       soon + flags{"--workers", "1", "--epochs", "1000",
                                    "--policy", "async", "--clip-norm", "1"}};
    auto worker = on.worker({"--connect-timeout", "1"});
    on.await(all.lead, "an update", is_step(20));
    all.others.back().signal(SIGSTOP);
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    all.lead.signal(SIGTERM);
    if (wakes)
      all.others.back().signal(SIGCONT);
    check_end(all.lead, wakes ? 75 : 1);
    all.others.back().signal(SIGCONT);
    for (auto& one : all.others)
      one.kill();
    worker.kill();
    CHECK(checkpoints_of(on.run()).size() == (wakes ? 1 : 0));
    check_replayed(on);
  }
}

TEST_CASE("a signal to any shard stops the run with a checkpoint") {
  process_fixture on;
  sharded_server all{
    on, 2, {"--workers", "1", "--epochs", "1000", "--policy", "async"}};
  auto worker = on.worker();
  on.await(all.lead, "an update", is_kind("update"));
  all.others.front().signal(SIGTERM);
  all.check_ends(75);
  check_end(worker, 0);
  CHECK(on.summary()["status"] == "stopped");
  CHECK(checkpoints_of(on.run()).size() == 1);
}

TEST_CASE("who is missing is said, and who does not fit") {
  process_fixture on;
  auto lead = on.listening_server(
    {"--rank", "0", "--shards", "3", "--workers", "1", "--epochs", "1"});
  auto first = on.shard(1, with_shards(3));
  first.await("connected .* as parameter server shard 1");
  auto early = on.worker();
  early.await("it waits for parameter server shard 2");
  auto other_size = on.shard(2, with_shards(4));
  check_end(other_size, 2);
  CHECK(other_size.err().find(
          "refuses this node: [cluster] shards = 4 here, but 3") !=
        std::string::npos);
  auto second = on.shard(2, {}); // It is told how many there are.
  for (auto* one : {&lead, &first, &second, &early})
    check_end(*one, 0);
}

TEST_CASE("a server without remote shards takes none") {
  process_fixture on;
  auto alone =
    on.listening_server({"--shards", "2", "--workers", "1", "--epochs", "1"});
  auto shard = on.shard(1, with_shards(2));
  check_end(shard, 2);
  CHECK(shard.err().find("it has no shards in processes of their own: start it "
                         "with --rank 0, or leave this one out") !=
        std::string::npos);
  auto worker = on.worker();
  check_end(alone, 0);
  check_end(worker, 0);
}

TEST_CASE("outliers are found over all shards, and again in a replay") {
  process_fixture on{recorded};
  sharded_server all{on, 3,
                     flags{"--policy", "async", "--workers", "3",
                           "--batch-size", "8", "--max-steps", "60",
                           "--outliers", "refuse(factor=1.5)"}};
  auto workers = workers_of(on, 3, {"--threads", "1"});
  all.check_ends(0);
  check_ends_of(workers, 0);
  CHECK(on.summary()["gradients_refused"] > 0);
  check_replayed(on);
}
