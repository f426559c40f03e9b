// What becomes of a run when a life of its server fails, when nobody computes
// any more, and while its server starts.

#include "tests/data/image_files.hpp"
#include "tests/process/peers.hpp"
#include "tests/support/loopback.hpp"

#include <catch2/catch_test_macros.hpp>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <string>

using namespace troupe::testing;

namespace {

/// Whether somebody listens on this port.
bool is_open(const std::string& port) {
  auto where = loopback(static_cast<uint16_t>(std::stoul(port)));
  auto file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  auto out =
    connect(file, reinterpret_cast<const sockaddr*>(&where), sizeof where) == 0;
  close(file);
  return out;
}

const flags endless{"--epochs", "100000", "--checkpoint-freq", "10",
                    "--lr",     "0.01",   "--workers",         "2"};

/// Two classes of eight images, of which one cannot be read.
void write_damaged(const std::filesystem::path& folder) {
  using namespace troupe::test;
  auto image = png_file(28, 28, 3, slopes(28, 28, 3));
  for (std::string part : {"train", "val"})
    for (std::string kind : {"dark", "light"}) {
      std::filesystem::create_directories(folder / part / kind);
      for (int i = 0; i < 8; ++i)
        spill(folder / part / kind / (std::to_string(i) + ".png"),
              {image.begin(), image.end()});
    }
  spill(folder / "train/dark/7.png", std::string(40, 'x'));
}

/// Digits as IDX files, 32 of each part.
void write_idx(const std::filesystem::path& folder) {
  using namespace troupe::test;
  std::filesystem::create_directories(folder);
  auto put = [&](const std::string& name, const bytes& content) {
    spill(folder / name, {content.begin(), content.end()});
  };
  for (std::string part : {"train", "t10k"}) {
    put(part + "-images-idx3-ubyte",
        images_file(32, 28, 28, bytes(32 * 28 * 28, 9)));
    put(part + "-labels-idx1-ubyte", labels_file(32, bytes(32, 3)));
  }
}

} // namespace

TEST_CASE("workers and shards of a life that failed wait for the next one") {
  process_fixture on{recorded};
  sharded_server first{on, 3, endless};
  auto workers = workers_of(on, 2);
  on.await(first.lead, "a checkpoint", is_kind("checkpoint"));
  first.others[0].kill();
  check_end(first.lead, 1);
  first.others[1].await("waiting .* to start again; it has failed");
  workers[0].await("waiting .* for the parameter server");
  auto lead = on.listening_server(endless + with_shards(3) +
                                  flags{"--rank", "0", "--resume", "auto"});
  auto shard = on.shard(1, with_shards(3));
  auto at = on.await(lead, "the next life", is_kind("resumed"));
  for (uint32_t who : {0, 1})
    on.await(lead, "an update", is_gradient_of(who), at);
  lead.signal(SIGTERM);
  check_end(lead, 75);
  check_ends_of(workers, 0);
  check_replayed(on);
}

TEST_CASE("peers whose workers have all failed say so, and end") {
  process_fixture on;
  write_damaged(on.home() / "data");
  auto all = start_peers(on, 2,
                         {"--dataset", "folder", "--data-dir",
                          (on.home() / "data").string(), "--image-size", "28",
                          "--network", "resnet20", "--batch-size", "8",
                          "--policy", "sync"});
  check_ends_of(all, 1);
  CHECK(all[0].err().find("all workers have ended") != std::string::npos);
  CHECK(on.summary()["status"] == "stopped");
}

TEST_CASE(
  "workers wait for a server that reads its data, as long as it goes on") {
  process_fixture on;
  write_idx(on.home() / "data");
  const flags what{"--dataset", "mnist", "--data-dir",
                   (on.home() / "data").string()};
  child_options slow;
  slow.environment = {{"LD_PRELOAD", TROUPE_TROUBLED_FILES},
                      {"TROUBLE_SLOW", "train-images"}};
  auto server = on.start("ps",
                         flags{"--role", "ps", "--port", on.port(),
                               "--train-dir", on.run().string(), "--epochs",
                               "1", "--workers", "1", "--batch-size", "8"} +
                           what,
                         slow);
  eventually("its port", [&] { return is_open(on.port()); });
  auto worker = on.worker(what + flags{"--connect-timeout", "1.5"});
  worker.await("it reads its data and has not begun yet");
  check_end(worker, 0);
  check_end(server, 0);
}

TEST_CASE("a shard whose disk is slow is not taken for dead") {
  process_fixture on{recorded};
  auto lead = on.listening_server(with_shards(2) +
                                  flags{"--rank", "0", "--epochs", "2",
                                        "--workers", "1", "--checkpoint-freq",
                                        "20", "--liveness-timeout", "2"});
  child_options slow; // It takes 3 s to open each file that it drafts.
  slow.environment = {{"LD_PRELOAD", TROUPE_TROUBLED_FILES},
                      {"TROUBLE_SLOW", ".tmp-draft-"}};
  auto shard =
    on.start("ps",
             with_shards(2) + flags{"--role", "ps", "--port", on.port(),
                                    "--rank", "1", "--listen", "127.0.0.1:0"},
             slow);
  auto worker = on.worker(with_shards(2));
  check_end(worker, 0);
  check_end(shard, 0);
  check_end(lead, 0);
  CHECK(check_completed(on, 2).resumes == 0);
}

TEST_CASE("a node leads whose worker has no place yet") {
  process_fixture on{recorded};
  write_idx(on.home() / "data");
  const flags what{"--policy",
                   "async",
                   "--epochs",
                   "100000",
                   "--checkpoint-freq",
                   "10",
                   "--batch-size",
                   "8",
                   "--reshard-on-join",
                   "--dataset",
                   "mnist",
                   "--data-dir",
                   (on.home() / "data").string()};
  auto lead = start_peer(on, 0, 1, what);
  on.await(lead, "a checkpoint", is_kind("checkpoint"));
  child_options slow; // It takes 3 s to open its data.
  slow.environment = {{"LD_PRELOAD", TROUPE_TROUBLED_FILES},
                      {"TROUBLE_SLOW", "train-images"}};
  auto joiner =
    on.start("joiner",
             peer_flags(on, {}) + recording(on) + flags{"--join"} + what, slow);
  joiner.await("as parameter server shard 1");
  // Worker 0 joins a second time in the life that has this shard, in which all
  // shards are ready.
  lead.await("joined +worker 0[\\s\\S]*joined +worker 0");
  lead.kill();
  joiner.await("rank 0 at .* is lost .*; the nodes that are left, 1, go on");
  auto before = on.metrics().size();
  on.await(joiner, "an update", is_kind("update"), before);
  joiner.signal(SIGTERM);
  check_end(joiner, 75);
  CHECK_NOTHROW(committed_of(on.metrics()));
  check_replayed(on);
}
