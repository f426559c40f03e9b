#include "tests/process/process_fixture.hpp"

#include "messages/proto/manifest.pb.h"
#include "tests/support/replayed_checkpoints.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <deque>
#include <set>
#include <sstream>
#include <stdexcept>

namespace troupe::testing {

namespace fs = std::filesystem;

std::vector<std::string> trainer_node(const flags& more) {
  return flags{TROUPE_TRAINER_NODE} + more;
}

// -- what a run leaves --------------------------------------------------------

std::vector<json> read_metrics(const fs::path& run) {
  auto text = slurp(run / "metrics.jsonl");
  text.resize(text.rfind('\n') + 1); // Without a line end nothing is left.
  std::istringstream in{text};
  std::vector<json> result;
  for (std::string line; std::getline(in, line);)
    result.push_back(json::parse(line));
  return result;
}

json read_summary(const fs::path& run) {
  return json::parse(slurp(run / "summary.json"));
}

std::vector<std::string> files_below(const fs::path& folder) {
  std::vector<std::string> result;
  for (const auto& entry : fs::recursive_directory_iterator{folder})
    result.push_back(entry.path().lexically_relative(folder).string());
  std::sort(result.begin(), result.end());
  return result;
}

std::vector<std::string> checkpoints_of(const fs::path& run) {
  std::vector<std::string> result;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator{run / "checkpoints", none})
    if (auto name = entry.path().filename().string(); name.starts_with("step-"))
      result.push_back(name);
  std::sort(result.begin(), result.end());
  return result;
}

std::function<bool(const json&)> is_kind(const std::string& kind) {
  return [kind](const json& line) {
    return line["kind"] == kind;
  };
}

std::function<bool(const json&)> is_step(uint64_t least) {
  return [least](const json& line) {
    return line["kind"] == "update" && line["step"] >= least;
  };
}

std::function<bool(const json&)> is_gradient_of(uint32_t who) {
  return [who](const json& line) {
    if (line["kind"] != "update")
      return false;
    auto all = line["workers"].get<std::vector<uint32_t>>();
    return std::find(all.begin(), all.end(), who) != all.end();
  };
}

bool is_about(const json& line, uint32_t who, uint64_t life) {
  return line.value("worker", uint32_t{1000}) == who &&
         line.value("incarnation", life) == life;
}

committed committed_of(const std::vector<json>& metrics) {
  committed result;
  auto& updates = result.updates;
  for (const auto& line : metrics) {
    auto step = line["step"].get<uint64_t>();
    if (line["kind"] == "update") {
      if (step != updates.size() + 1)
        throw std::runtime_error("step " + std::to_string(step) + " after " +
                                 std::to_string(updates.size()));
      updates.push_back(line);
    } else if (line["kind"] == "resumed") {
      auto lost = updates.size() - step;
      if (step > updates.size() || line["lost_updates"] != lost)
        throw std::runtime_error("the roll-back is not what is said: " +
                                 line.dump());
      updates.resize(step);
      result.rolled_back += lost;
      ++result.resumes;
    }
  }
  for (const auto& line : updates)
    result.samples += line["samples"].get<uint64_t>();
  return result;
}

uint64_t settled_in(const fs::path& checkpoint) {
  troupe::proto::Manifest manifest;
  if (!manifest.ParseFromString(slurp(checkpoint / "manifest.pb")))
    throw std::runtime_error("no manifest in " + checkpoint.string());
  const auto& ledger = manifest.ledger();
  auto result = ledger.epochs_opened() * ledger.samples();
  for (const auto& epoch : ledger.open_epochs())
    for (const auto& range : epoch.unsettled())
      result -= range.count();
  return result;
}

flags operator+(flags left, const flags& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

flags with_shards(int shards) {
  return {"--shards", std::to_string(shards)};
}

// -- the processes ------------------------------------------------------------

process_fixture::process_fixture() : process_fixture(TROUPE_TRAINER_NODE) {
  // nop
}

process_fixture::process_fixture(recorded_t) : process_fixture() {
  recorded_ = true;
}

process_fixture::process_fixture(std::string program)
  : program_(std::move(program)), port_(std::to_string(free_port())) {
  // nop
}

flags process_fixture::of_writer() const {
  return recorded_ ? of_worker() + flags{"--tape", "--keep", "100000"}
                   : flags{};
}

flags process_fixture::of_worker() const {
  return recorded_ ? flags{"--threads", "1"} : flags{};
}

child process_fixture::start(const std::string& name, const flags& more,
                             const child_options& how) {
  auto options = how;
  if (options.folder.empty())
    options.folder = home();
  auto number = ++counts_[name];
  return child{flags{program_} + more,
               home_ / (name + "." + std::to_string(number)), options};
}

child process_fixture::is_member(const std::string& role, const flags& more) {
  flags all{"--role", role, "--port", port_};
  all.insert(all.end(), more.begin(), more.end());
  return start(role, all);
}

child process_fixture::server(const flags& more) {
  return is_member("ps",
                   flags{"--train-dir", run().string()} + of_writer() + more);
}

child process_fixture::listening_server(const flags& more) {
  auto result = server(more);
  result.await("listening ");
  return result;
}

child process_fixture::shard(int rank, const flags& more) {
  flags all{"--rank", std::to_string(rank), "--listen", "127.0.0.1:0"};
  all.insert(all.end(), more.begin(), more.end());
  return is_member("ps", all);
}

child process_fixture::worker(const flags& more) {
  return is_member("worker", of_worker() + more);
}

child process_fixture::evaluator(const flags& more) {
  return is_member("evaluator", more);
}

child process_fixture::simulate(const flags& more) {
  return start("simulate", flags{"--simulate", "--train-dir", run().string()} +
                             of_writer() + more);
}

sharded_server::sharded_server(process_fixture& on, int shards,
                               const flags& more)
  : lead(
      on.listening_server(flags{"--rank", "0"} + with_shards(shards) + more)) {
  for (int k = 1; k < shards; ++k)
    others.push_back(on.shard(k, with_shards(shards)));
}

void sharded_server::check_ends(int status) {
  check_end(lead, status);
  check_ends_of(others, status);
}

size_t process_fixture::await(child& server, const std::string& event,
                              const std::function<bool(const json&)>& wanted,
                              size_t from) {
  size_t found = 0;
  auto over = false;
  try {
    eventually(event, [&] {
      if (over)
        throw std::runtime_error("the run ended without " + event);
      over = !server.running();
      auto lines = metrics();
      auto at = std::find_if(
        lines.begin() + static_cast<ptrdiff_t>(std::min(from, lines.size())),
        lines.end(), wanted);
      found = static_cast<size_t>(at - lines.begin());
      return at != lines.end();
    });
  } catch (const std::runtime_error& err) {
    throw std::runtime_error(server.report() + err.what());
  }
  return found;
}

void check_end(child& who, int status, std::chrono::seconds limit) {
  auto found = who.wait(limit);
  INFO(who.report());
  CHECK(found == status);
}

void check_ends_of(std::vector<child>& all, int status) {
  for (auto& one : all)
    check_end(one, status);
}

std::vector<child> workers_of(process_fixture& on, size_t count,
                              const flags& more) {
  std::vector<child> result;
  for (size_t i = 0; i < count; ++i)
    result.push_back(on.worker(more));
  return result;
}

uint64_t memory_of(pid_t process, const std::string& field) {
  auto text = slurp("/proc/" + std::to_string(process) + "/status");
  auto at = text.find(field + ":");
  return at == std::string::npos
           ? 0
           : std::stoull(text.substr(at + 1 + field.size()));
}

committed check_completed(process_fixture& on, uint64_t epochs) {
  auto summary = on.summary();
  INFO(summary.dump(2));
  CHECK(summary["status"] == "completed");
  auto kept = committed_of(on.metrics());
  CHECK(summary["steps"] == kept.updates.size());
  CHECK(summary["samples_applied"] == kept.samples);
  auto checkpoints = checkpoints_of(on.run());
  REQUIRE(!checkpoints.empty());
  CHECK(settled_in(on.run() / "checkpoints" / checkpoints.back()) ==
        kept.samples);
  CHECK(kept.samples == epochs * digits);
  for (const auto& name : files_below(on.run())) {
    INFO(name);
    CHECK(name.find("tmp") == std::string::npos);
  }
  if (on.is_recorded())
    check_replayed(on);
  return kept;
}

namespace {

struct replayed_life {
  uint64_t life;
  fs::path folder;
  child process;
};

/// The lives of a run that have left an event log.
std::set<uint64_t> recorded_lives(const fs::path& run) {
  std::set<uint64_t> out;
  for (const auto& entry : fs::directory_iterator{run})
    if (auto name = entry.path().filename().string(); name.starts_with("tape-"))
      out.insert(std::stoull(name.substr(5)));
  return out;
}

size_t whole_checkpoints(const fs::path& run) {
  size_t out = 0;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator{run / "checkpoints", none})
    out += fs::exists(entry.path() / "manifest.pb");
  return out;
}

} // namespace

void check_replayed(process_fixture& on, double tolerance) {
  constexpr std::chrono::seconds whole_run{240};
  constexpr size_t at_a_time = 2; // As many as the usual number of cores.
  std::deque<replayed_life> under_way;
  size_t compared = 0;
  auto finish_one = [&] {
    auto& next = under_way.front();
    check_end(next.process, 0, whole_run);
    INFO(next.process.report());
    CHECK(next.process.said("replay       ([0-9]+ events, all as in the event "
                            "log|the event log ends after|the run failed "
                            "here)"));
    if (tolerance == 0)
      CHECK_FALSE(next.process.said("not bit-equal"));
    auto found =
      test::compare_checkpoints(on.run(), next.life, next.folder, tolerance);
    CHECK(found.differences == std::vector<std::string>{});
    compared += found.compared;
    fs::remove_all(next.folder);
    under_way.pop_front();
  };
  for (auto life : recorded_lives(on.run())) {
    auto name = std::to_string(life);
    auto folder = on.home() / ("replay-" + name);
    auto event_log = on.run() / ("tape-" + name + ".pb");
    under_way.push_back(
      {life, folder,
       on.start("replay", {"--replay", event_log.string(), "--train-dir",
                           folder.string(), "--keep", "100000"})});
    if (under_way.size() == at_a_time)
      finish_one();
  }
  while (!under_way.empty())
    finish_one();
  CHECK(compared == whole_checkpoints(on.run()));
}

void check_same_result(const json& found, const json& expected) {
  INFO(found.dump(2));
  for (auto key : {"weights_sha256", "state_sha256", "steps", "final_loss",
                   "final_accuracy", "samples_applied"})
    CHECK(found[key] == expected[key]);
  CHECK(found["state_sha256"].is_string());
}

} // namespace troupe::testing
