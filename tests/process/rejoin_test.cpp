// Nodes that wait while their parameter server is killed and started with
// something else: they take part in what it is now, or end with one line.

#include "tests/data/idx_files.hpp"
#include "tests/process/process_fixture.hpp"

#include <catch2/catch_test_macros.hpp>

#include <csignal>

using namespace troupe;
using namespace troupe::testing;

namespace fs = std::filesystem;

namespace {

/// One worker, whose sums are always made in the same order.
const flags alone{"--threads", "1"};

const flags first_run{"--workers", "1",           "--max-steps",
                      "100000",    "--eval-freq", "100000"};

const flags short_run{"--workers", "1", "--max-steps", "12"};

struct nodes {
  child worker;
  child evaluator;
};

/// A run with a worker and an evaluator, whose server is killed in its middle.
nodes train_and_kill(
  process_fixture& on, const flags& server_flags, const flags& node_flags,
  const std::function<bool(const json&)>& when = is_step(3)) {
  auto server = on.listening_server(first_run + server_flags);
  nodes out{on.worker(alone + node_flags), on.evaluator(node_flags)};
  out.evaluator.await("connected");
  on.await(server, "the time to kill it", when);
  server.kill();
  return out;
}

/// Starts the server again. The worker is held back until the evaluator has
/// come: otherwise the run would be over first.
child restart(process_fixture& on, nodes& with, const flags& server_flags) {
  with.worker.signal(SIGSTOP);
  auto server = on.listening_server(server_flags);
  with.evaluator.await("connected[\\s\\S]*connected");
  with.worker.signal(SIGCONT);
  return server;
}

json summary_of(child& server, nodes& with, const std::filesystem::path& run) {
  check_end(server, 0);
  check_end(with.worker, 0);
  check_end(with.evaluator, 0);
  return read_summary(run);
}

/// The summary of a run of nodes that were never part of another run.
json fresh(const flags& server_flags, const flags& node_flags) {
  process_fixture on;
  auto server = on.listening_server(short_run + server_flags);
  auto evaluator = on.evaluator(node_flags);
  evaluator.await("connected");
  nodes all{on.worker(alone + node_flags), std::move(evaluator)};
  return summary_of(server, all, on.run());
}

/// The summary of the same run, of nodes that took part in another run before.
json rejoined(const flags& before, const flags& after,
              const flags& node_flags) {
  process_fixture on;
  auto all = train_and_kill(on, before, node_flags);
  auto server = restart(on, all, short_run + after + flags{"--overwrite"});
  auto out = summary_of(server, all, on.run());
  CHECK(all.worker.said("there is another run at .*: this node begins anew"));
  CHECK(
    all.evaluator.said("there is another run at .*: this node begins anew"));
  return out;
}

void check_same(const json& found, const json& wanted) {
  CHECK(found["weights_sha256"] == wanted["weights_sha256"]);
  CHECK(found["final_accuracy"] == wanted["final_accuracy"]);
  CHECK(found["final_loss"] == wanted["final_loss"]);
}

} // namespace

TEST_CASE("nodes take part in a run with another seed as fresh ones do") {
  const flags what{"--seed", "7"};
  check_same(rejoined({}, what, {}), fresh(what, {}));
}

TEST_CASE("nodes take part in a run with another data set and augmentation") {
  const flags what{"--dataset",         "synthetic(shape=1x28x28,samples=500)",
                   "--augment",         "flip",
                   "--label-smoothing", "0.1"};
  check_same(rejoined({}, what, {}), fresh(what, {}));
}

TEST_CASE("nodes take part in a run with an edited script") {
  temporary_folder folder;
  auto file = (folder / "net.pt").string();
  auto write = [&](const char* seed) {
    child who{{TROUPE_WRITE_SCRIPT, file, seed}, folder / "write"};
    check_end(who, 0);
  };
  const flags what{"--network", "script:" + file, "--allow-scripts"};
  const flags allowed{"--allow-scripts"};
  write("2");
  auto wanted = fresh(what, allowed);
  write("1");
  process_fixture on;
  auto all = train_and_kill(on, what, allowed);
  write("2");
  auto server = restart(on, all, short_run + what + flags{"--overwrite"});
  check_same(summary_of(server, all, on.run()), wanted);
}

TEST_CASE("nodes whose files are not those of the new run end with a line") {
  process_fixture on;
  test::write_mnist(on.home() / "mine", 100, 1);
  test::write_mnist(on.home() / "theirs", 100, 2);
  auto data = [&](const std::string& name) {
    return flags{"--data-dir", (on.home() / name).string()};
  };
  const flags what{"--dataset", "mnist", "--batch-size", "10"};
  auto all = train_and_kill(on, what + data("mine"), data("mine"));
  auto server = on.listening_server(short_run + what + data("theirs") +
                                    flags{"--overwrite"});
  for (auto* node : {&all.worker, &all.evaluator}) {
    check_end(*node, 1);
    INFO(node->report());
    CHECK(node->err().find("/mine: is other data than the parameter server's: "
                           "digest of the labels of the ") !=
          std::string::npos);
  }
  server.signal(SIGTERM);
  check_end(server, 75);
}

TEST_CASE("a node is held to the part of the data that it uses") {
  process_fixture on;
  for (const auto* name : {"all", "part"})
    test::write_mnist(on.home() / name, 100, 1);
  fs::remove(on.home() / "part/t10k-labels-idx1-ubyte");
  auto labels = test::labels_file(1, {7});
  spill(on.home() / "part/t10k-labels-idx1-ubyte",
        {labels.begin(), labels.end()});
  auto data = [&](const std::string& name) {
    return flags{"--data-dir", (on.home() / name).string()};
  };
  auto server =
    on.listening_server(short_run + data("all") +
                        flags{"--dataset", "mnist", "--batch-size", "10"});
  auto evaluator = on.evaluator(data("part"));
  check_end(evaluator, 1);
  CHECK(evaluator.err().find("digest of the labels of the test samples") !=
        std::string::npos);
  auto worker = on.worker(data("part"));
  check_end(server, 0);
  check_end(worker, 0);
}

TEST_CASE("nodes heed what a resumed run has changed deliberately") {
  process_fixture on;
  const flags often{"--checkpoint-freq", "2"};
  auto all = train_and_kill(on, often, {}, is_kind("checkpoint"));
  auto server =
    on.listening_server(short_run + often +
                        flags{"--resume", "--change", "training.batch-size=32",
                              "--max-steps", "100000", "--epochs", "3"});
  auto summary = summary_of(server, all, on.run());
  CHECK(all.worker.said("run +has changed \\(\\[training\\] batch-size: 64 "
                        "before, 32 now\\): this node begins anew"));
  CHECK(summary["samples_applied"] == 3 * digits);
  auto lines = on.metrics();
  auto resumed = std::ranges::find_if(lines, is_kind("resumed"));
  auto update = std::find_if(resumed, lines.end(), is_kind("update"));
  REQUIRE(update != lines.end());
  CHECK((*update)["samples"] == 32);
}

TEST_CASE("nodes of a run that is resumed as it was go on as they are") {
  process_fixture on;
  const flags often{"--checkpoint-freq", "2"};
  auto all = train_and_kill(on, often, {}, is_kind("checkpoint"));
  auto server = restart(on, all, {"--resume", "--max-steps", "40"});
  summary_of(server, all, on.run());
  CHECK_FALSE(all.worker.said("this node begins anew"));
  CHECK_FALSE(all.evaluator.said("this node begins anew"));
}
