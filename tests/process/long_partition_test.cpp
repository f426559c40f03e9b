// As partition_test, for what takes half a minute to be noticed.

#include "tests/process/partitions.hpp"

#include <sys/stat.h>

#include <functional>
#include <sstream>

using namespace troupe::testing;
using namespace std::chrono_literals;

namespace {

/// In place of metrics.jsonl: takes 64 KiB, then nothing until it is read.
class blocked_log {
public:
  explicit blocked_log(const process_fixture& on) {
    std::filesystem::create_directories(on.run());
    auto path = on.run() / "metrics.jsonl";
    if (mkfifo(path.c_str(), 0644) != 0)
      throw std::runtime_error("no FIFO");
    out_ = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  }

  ~blocked_log() { ::close(out_); }

  /// All that comes while `goes_on`.
  std::string read(const std::function<bool()>& goes_on) const {
    std::string out;
    std::array<char, 65536> some{};
    for (auto last = false; !last;) {
      last = !goes_on();
      for (ssize_t n = 1; n > 0;) {
        n = ::read(out_, some.data(), some.size());
        out.append(some.data(), static_cast<size_t>(n > 0 ? n : 0));
      }
      std::this_thread::sleep_for(1ms);
    }
    return out;
  }

private:
  int out_ = -1;
};

/// Many small updates: some thousands are more than may be unwritten. Their
/// gradients are noise, so that a larger rate may diverge.
const flags many_updates{"--workers",    "2",    "--policy",    "async",
                         "--batch-size", "2",    "--max-steps", "9000",
                         "--lr",         "1e-4", "--momentum",  "0",
                         "--resume",     "auto", "--evaluator", "false"};

/// Waits until it computes no more.
void await_stillness(child& who) {
  auto time_of = [&who] {
    auto text = slurp("/proc/" + std::to_string(who.pid()) + "/stat");
    std::istringstream in{text.substr(text.rfind(')') + 2)};
    std::string word;
    for (int i = 0; i < 11; ++i)
      in >> word;
    uint64_t user = 0;
    in >> user;
    return user;
  };
  auto before = time_of();
  for (auto still = 0; still < 4;) {
    std::this_thread::sleep_for(500ms);
    auto now = time_of();
    still = now - before <= 2 ? still + 1 : 0;
    before = now;
    if (!who.running())
      throw std::runtime_error("it ended: " + who.report());
  }
}

} // namespace

TEST_CASE("a disk that takes nothing holds training up, and nothing is lost") {
  process_fixture on;
  blocked_log log{on};
  auto all = on.simulate(many_updates);
  await_stillness(all);
  auto memory = memory_of(all.pid());
  std::this_thread::sleep_for(2s);
  CHECK(memory_of(all.pid()) < memory + 2000);
  auto text = log.read([&] { return all.running(); });
  check_end(all, 0);
  uint64_t step = 0;
  std::istringstream in{text};
  for (std::string line; std::getline(in, line);)
    if (auto value = json::parse(line); value["kind"] == "update")
      CHECK(value["step"] == ++step);
  CHECK(step == 9000);
}

TEST_CASE("a run that ends while the disk takes nothing ends as failed") {
  process_fixture on;
  blocked_log log{on};
  auto all = on.simulate(many_updates + flags{"--grace", "15"});
  await_stillness(all);
  all.signal(SIGINT);
  check_end(all, 1, 60s);
  CHECK(all.err().find("the run directory took no lines for 1") !=
        std::string::npos); // What is left of the 15 s of --grace.
}

TEST_CASE("a path that carries nothing for good gives way to another") {
  process_fixture on{recorded};
  auto server =
    on.listening_server({"--workers", "2", "--max-steps", "400", "--transport",
                         "auto", "--policy", "sync"});
  // Shared memory would be taken else.
  auto one = on.worker({"--transport", "stream"});
  auto other = on.worker();
  on.await(server, "training", is_kind("update"));
  REQUIRE(deafen(one.pid(), std::stoi(on.port()), true));
  auto before = on.metrics().size();
  on.await(server, "that it left", is_kind("left"), before);
  auto back = on.await(server, "that it is back", is_kind("joined"), before);
  on.await(server, "training", is_gradient_of(0), back);
  on.await(server, "training", is_gradient_of(1), back);
  check_end(server, 0);
  check_end(one, 0);
  check_end(other, 0);
  auto kept = committed_of(on.metrics());
  CHECK(on.summary()["samples_applied"] == kept.samples);
  check_replayed(on);
}
