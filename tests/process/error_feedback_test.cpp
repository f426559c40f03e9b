// A parameter server that is killed repeatedly before it takes the next
// checkpoint. Error feedback of gradients that are lost with it must be lost,
// too: the run has the same bits as one that started at that checkpoint.

#include "tests/process/process_fixture.hpp"

#include <catch2/catch_test_macros.hpp>

#include <iostream>
#include <random>

using namespace troupe::testing;
namespace fs = std::filesystem;

namespace {

constexpr uint64_t checkpoint_freq = 20;

std::string name_of(uint64_t step) {
  auto digits = std::to_string(step);
  return "step-" + std::string(8 - digits.size(), '0') + digits;
}

uint64_t newest_checkpoint(const fs::path& run) {
  return std::stoull(checkpoints_of(run).back().substr(5));
}

/// Two workers whose ranks, samples and sums do not depend on who is quicker.
struct cluster {
  process_fixture on;
  std::string compression;
  bool folders = false; ///< Workers keep error feedback on disk.
  std::vector<child> workers{};

  flags settings() const {
    return {"--workers",         "2",
            "--sharding",        "static",
            "--batch-size",      "128",
            "--compression",     compression,
            "--checkpoint-freq", std::to_string(checkpoint_freq)};
  }

  child server(const fs::path& run, const flags& more) {
    return on.start("ps", flags{"--role", "ps", "--port", on.port(),
                                "--train-dir", run.string()} +
                            settings() + more);
  }

  /// New processes, with folders below `home` if they have any.
  void start_workers(const std::string& home) {
    workers.clear();
    for (std::string rank : {"0", "1"}) {
      flags all{"--rank", rank, "--threads", "1"};
      if (folders)
        all = all + flags{"--train-dir", (on.home() / home / rank).string()};
      workers.push_back(on.worker(all));
    }
  }

  void check_workers() {
    for (auto& worker : workers)
      check_end(worker, 0);
  }

  /// Weights and momentum at a checkpoint.
  std::string state_at(const fs::path& run, uint64_t step) const {
    auto folder = run / "checkpoints" / name_of(step);
    return slurp(folder / "model.safetensors") +
           slurp(folder / "optimizer.safetensors");
  }
};

/// Kills servers until `kills` of them in a row have begun at the same
/// checkpoint, or left it, and none after it; returns its step.
uint64_t kill_servers(cluster& in, int kills, std::mt19937_64& random) {
  const flags endless{"--max-steps", "1000000"};
  auto server = in.server(in.on.run(), endless);
  auto seen = in.on.await(server, "a checkpoint", is_kind("checkpoint"));
  uint64_t from = 0;
  for (int in_a_row = 0; true;) {
    auto newest = newest_checkpoint(in.on.run());
    in.on.await(server, "more than it holds",
                is_step(newest + 2 + random() % 3), seen);
    server.kill();
    newest = newest_checkpoint(in.on.run());
    in_a_row = newest == from ? in_a_row + 1 : 1;
    from = newest;
    if (in_a_row == kills)
      return from;
    seen = in.on.metrics().size();
    server = in.server(in.on.run(), endless + flags{"--resume", "auto"});
    seen = in.on.await(server, "that it goes on", is_kind("resumed"), seen);
  }
}

void kill_often(const std::string& compression, bool folders, int kills,
                uint64_t seed) {
  INFO("seed " << seed << ", " << compression << ", " << kills << " kills"
               << (folders ? ", with folders" : ""));
  std::mt19937_64 random{seed};
  cluster in{{}, compression, folders};
  in.start_workers("workers");
  auto from = kill_servers(in, kills, random);
  auto to = from + checkpoint_freq;
  auto limit = flags{"--max-steps", std::to_string(to)};
  auto last = in.server(in.on.run(), limit + flags{"--resume", "auto"});
  check_end(last, 0);
  in.check_workers();

  // With the error feedback of the checkpoint they continue as if nobody had
  // been killed; without it, like a run that starts there.
  auto whole = in.on.home() / "whole";
  auto begin = (in.on.run() / "checkpoints" / name_of(from)).string();
  in.start_workers("fresh");
  auto other =
    in.server(whole, folders ? limit : limit + flags{"--resume", begin});
  check_end(other, 0);
  in.check_workers();
  CHECK(in.state_at(in.on.run(), to) == in.state_at(whole, to));
  std::cout << compression << ": killed " << kills << " times from step "
            << from << " on" << std::endl;
}

} // namespace

TEST_CASE("nothing is left of lives of a server that end between checkpoints") {
  auto first = wished("TROUPE_FAULT_FIRST_SEED", 0);
  auto end = first + wished("TROUPE_FAULT_REPETITIONS", 2);
  for (auto seed = first; seed < end; ++seed)
    kill_often(seed % 2 == 0 ? "topk(share=0.05)" : "int8",
               seed % 4 == 1 || seed % 4 == 2,
               2 + static_cast<int>(seed / 2 % 3), seed);
}
