// Who trains on which samples, in whole runs: shares and files of one's own,
// workers that leave, and runs that are resumed and replayed.

#include "apps/lab/replay_plan.hpp"
#include "config/text/failure.hpp"
#include "data/sampling/permutation.hpp"
#include "tests/data/idx_files.hpp"
#include "tests/simulation/virtual_test.hpp"
#include "tests/support/error_line.hpp"
#include "tests/support/event_log_account.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

using namespace troupe;
using namespace troupe::test;
using testing::temporary_folder;

namespace {

namespace fs = std::filesystem;
using strings = words;

constexpr uint64_t samples = 90;

/// A small run that leaves an event log.
strings small(uint32_t workers, const strings& more) {
  return strings{"--dataset",
                 "synthetic(shape=1x28x28,classes=10,samples=90)",
                 "--batch-size",
                 "8",
                 "--eval-freq",
                 "1000",
                 "--seed",
                 "3",
                 "--tape",
                 "--workers",
                 std::to_string(workers)} +
         more;
}

/// How often each sample of the data set was applied in an epoch.
std::vector<int> samples_of(const event_log_account& from, uint64_t epoch,
                            uint32_t shares) {
  data::epoch_order order{3, samples, shares};
  std::vector<int> out(samples);
  for (const auto& [part, positions] : from.of(epoch))
    for (auto [at, times] : positions)
      out[static_cast<size_t>(
        order.lease_indices(epoch, at, 1, part).front())] += times;
  return out;
}

void check_same_when_replayed(const fs::path& folder, const strings& more,
                              const virtual_outcome& first) {
  auto call = config::parse_command_line(
    strings{"--replay", (folder / "run/tape-1.pb").string(), "--train-dir",
            (folder / "again").string()} +
      more,
    config::environment{});
  app::virtual_run_options options;
  options.silent = true;
  options.replay = app::plan_replay(call, [](const std::string&) {});
  auto end = app::run_in_virtual_time(options.replay->config, options);
  CHECK(end.line.empty());
  CHECK(text_of_file(folder / "again/metrics.jsonl") == first.metrics);
}

/// Three parts of 40, 24 and 17 samples.
void write_parts(const fs::path& folder) {
  write_mnist(folder / "part-0", 40, 0);
  write_mnist(folder / "part-1", 24, 1);
  write_mnist(folder / "part-2", 17, 2);
}

strings local(const fs::path& parts, const strings& more) {
  return strings{"--dataset",
                 "mnist",
                 "--data-dir",
                 parts.string(),
                 "--sharding",
                 "local",
                 "--workers",
                 "3",
                 "--batch-size",
                 "8",
                 "--eval-freq",
                 "1000",
                 "--tape",
                 "--compute-time",
                 "gamma(mean=1,cv=0.3)"} +
         more;
}

} // namespace

TEST_CASE("each sample is in the weights once an epoch, leased and static") {
  auto workers = GENERATE(1u, 2u, 3u, 4u, 7u, 8u);
  for (const strings& sharding : {strings{"leased"}, strings{"static"},
                                  strings{"static", "--drop-last"}}) {
    INFO(workers << " workers, " << sharding.front());
    temporary_folder folder;
    auto shared = sharding.front() == "leased";
    auto found = run_in(
      folder / "run",
      small(workers, strings{"--sharding"} + sharding +
                       strings{"--policy", "async", "--compute-time",
                               "gamma(mean=1,cv=0.3)", "--epochs", "2"}));
    event_log_account kept;
    kept.add(folder / "run/tape-1.pb");
    auto share = samples / workers;
    if (sharding.size() == 1 && share * workers < samples)
      ++share;
    for (uint64_t epoch = 0; epoch < 2; ++epoch) {
      std::vector<int> wanted(samples, shared ? 1 : 0);
      auto order = data::epoch_permutation(3, epoch, samples);
      for (uint64_t i = 0; i < share * workers && !shared; ++i)
        ++wanted[static_cast<size_t>(order[i % samples])];
      CHECK(samples_of(kept, epoch, shared ? 1 : workers) == wanted);
    }
    CHECK(kept.strays() == 0);
    CHECK(found.summary["sharding"] == sharding.front());
    CHECK(found.summary["samples_left_out"] == 0);
  }
}

TEST_CASE("a static run is reproducible, and its event log can be replayed") {
  temporary_folder folder;
  auto all = small(3, {"--sharding", "static", "--policy", "ssp", "--epochs",
                       "2", "--compute-time", "exp(offset=0.5,mean=0.5)"});
  auto first = run_in(folder / "run", all);
  auto second = run_in(folder / "other", all);
  CHECK(first.sha256() == second.sha256());
  check_same_when_replayed(folder.path(), {}, first);
}

TEST_CASE("a static run goes on where its checkpoint was") {
  temporary_folder folder;
  auto with = [&](const strings& more) {
    return small(4, strings{"--sharding", "static"} + more);
  };
  run_in(folder / "run", with({"--max-steps", "2"}));
  run_in(folder / "run", with({"--epochs", "2", "--resume"}));
  event_log_account kept;
  kept.add(folder / "run/tape-1.pb", 2);
  kept.add(folder / "run/tape-2.pb");
  CHECK(kept.repeats() == 0);
  CHECK(kept.samples_of(0) == 92);
  CHECK(kept.samples_of(1) == 92);
  auto refused = [&](uint32_t workers, const strings& more) {
    return error_line<usage_error>(
      [&] { run_in(folder / "run", small(workers, {"--resume"}) + more); });
  };
  CHECK(
    refused(2, {"--sharding", "static"})
      .ends_with("step-00000006: the run has [cluster] workers = 4, not 2"));
  CHECK(refused(4, {}).ends_with(
    "step-00000006: the run has [data] sharding = static, not leased"));
}

TEST_CASE("what a lost worker has not done is left out, and counted") {
  auto run_with = [](const std::string& fault, event_log_account& kept) {
    temporary_folder folder;
    testing::spill(folder / "faults.txt", fault);
    auto found =
      run_in(folder / "run",
             small(3, {"--sharding", "static", "--epochs", "3",
                       "--liveness-timeout", "4", "--join-timeout", "5",
                       "--faults", (folder / "faults.txt").string()}));
    kept.add(folder / "run/tape-1.pb");
    return found;
  };
  // Shares of 30: four steps make an epoch; the third is under way at 2.5 s.
  event_log_account gone;
  auto lost = run_with("2.5 crash(worker=1)", gone);
  CHECK(lost.summary["samples_left_out"] == 14 + 30 + 30);
  CHECK(lost.summary["samples_applied"] == 270 - 74);
  CHECK(lost.summary["epochs"] == 3.0);
  CHECK(gone.of(0)[1].size() == 16);
  CHECK(gone.of(2)[1].empty());
  CHECK(gone.of(2)[0].size() == 30);
  CHECK(gone.repeats() == 0);
  // It is back before the others have done the epoch, and goes on behind them.
  event_log_account back;
  auto returned = run_with("2.5 crash(worker=1,restart=1)", back);
  CHECK(returned.summary["samples_left_out"] == 0);
  for (uint64_t epoch = 0; epoch < 3; ++epoch)
    CHECK(back.samples_of(epoch) == samples);
  CHECK(back.repeats() == 0);
}

TEST_CASE("late samples of backup are left out where nobody else has them") {
  temporary_folder folder;
  auto found = run_in(
    folder / "run",
    small(3, {"--sharding", "static", "--policy", "backup", "--epochs", "3",
              "--compute-time", "slow(base=constant(1),worker=2,factor=4)"}));
  CHECK(found.summary["samples_left_out"] > 0);
  CHECK(found.summary["samples_dropped"] > 0);
  CHECK(found.summary["status"] == "completed");
}

TEST_CASE("each rank trains on its own files, of whatever size") {
  temporary_folder folder;
  write_parts(folder / "parts");
  auto all = local(folder / "parts", {"--policy", "async", "--epochs", "2"});
  auto found = run_in(folder / "run", all);
  event_log_account kept;
  kept.add(folder / "run/tape-1.pb");
  CHECK(kept.repeats() == 0);
  CHECK(kept.strays() == 0);
  for (uint64_t epoch = 0; epoch < 2; ++epoch) {
    CHECK(kept.of(epoch)[0].size() == 40);
    CHECK(kept.of(epoch)[1].size() == 24);
    CHECK(kept.of(epoch)[2].size() == 17);
  }
  // A rank with fewer samples is already in its next epoch.
  CHECK(kept.of(2)[2].size() == 17);
  CHECK(found.summary["sharding"] == "local");
  CHECK(found.summary["samples_left_out"] == 0);
  check_same_when_replayed(folder.path(), {}, found);
}

TEST_CASE("a run on files of their own goes on where its checkpoint was") {
  temporary_folder folder;
  write_parts(folder / "parts");
  run_in(folder / "run", local(folder / "parts", {"--max-steps", "3"}));
  run_in(folder / "run",
         local(folder / "parts", {"--epochs", "1", "--resume"}));
  event_log_account kept;
  kept.add(folder / "run/tape-1.pb", 3);
  kept.add(folder / "run/tape-2.pb");
  CHECK(kept.repeats() == 0);
  CHECK(kept.samples_of(0) == 81);
}

TEST_CASE("an event log is not replayed with other parts") {
  temporary_folder folder;
  write_parts(folder / "parts");
  run_in(folder / "run", local(folder / "parts", {"--max-steps", "3"}));
  write_mnist(folder / "parts/part-1", 24, 5);
  auto call = config::parse_command_line(
    strings{"--replay", (folder / "run/tape-1.pb").string(), "--train-dir",
            (folder / "again").string()},
    config::environment{});
  app::virtual_run_options options;
  options.silent = true;
  options.replay = app::plan_replay(call, [](const std::string&) {});
  auto end = app::run_in_virtual_time(options.replay->config, options);
  CHECK(end.status == 1);
  CHECK(end.line.find("worker 1 had 24 samples of its own, which are not those "
                      "of part-1; name the folder of the same parts with "
                      "--data-dir") != std::string::npos);
}

TEST_CASE("parts that are not there are named") {
  temporary_folder folder;
  write_mnist(folder / "parts/part-0", 10, 0);
  CHECK(
    error_line<run_error>([&] {
      run_in(folder / "run", local(folder / "parts", {"--epochs", "1"}));
    }) ==
    (folder / "parts/part-1").string() +
      ": no such folder; --simulate --sharding local needs part-0 to part-2 "
      "in the data-dir: trainer_node data split makes them");
}
