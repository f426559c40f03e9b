#include "actors/recording/run_statistics.hpp"
#include "actors/recording/summary.hpp"
#include "messages/proto/manifest.pb.h"
#include "tests/support/members.hpp"
#include "tests/support/metrics.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include <cmath>
#include <numeric>
#include <random>

using namespace troupe;
using namespace troupe::recording;
using namespace troupe::test;
using troupe::testing::found;

namespace {

constexpr auto w4 = worker_id{4};

std::string json_of(const run_statistics& x, const run_times& times) {
  summary result;
  x.fill(result, times);
  return to_json(result);
}

/// `count` random events.
void happen(run_statistics& x, std::mt19937& random, int count) {
  for (int i = 0; i < count; ++i) {
    auto who = worker_id{static_cast<uint32_t>(random() % 6)};
    push_times times{static_cast<double>(random() % 64) / 8,
                     static_cast<double>(random() % 64) / 8};
    switch (random() % 5) {
    default:
      x.applied(who, random() % 64 + 1, random() % 9, times);
      break;
    case 0:
      x.dropped(who, random() % 64 + 1, times);
      break;
    case 1:
      x.refused(who, times);
      break;
    case 2:
      x.evaluated(static_cast<uint64_t>(i),
                  found(static_cast<double>(random() % 100) / 100));
    }
  }
}

} // namespace

TEST_CASE("the wait for batches is part of the workers' time") {
  run_statistics x{2};
  CHECK(x.data_wait_share() == 0);
  x.applied(w0, 64, 0, {3, 1, 0.5});
  x.refused(w1, {3, 1, 1.5});
  CHECK(x.data_wait_share() == 0.25);
  CHECK(x.wait_share() == 0.25);
  proto::Counters saved;
  x.skipped(3);
  x.overflowed(2);
  x.save(saved, {});
  run_statistics again{2};
  again.load(saved);
  summary out;
  again.fill(out, {});
  CHECK(out.data_wait_share == 0.25);
  CHECK(out.samples_skipped == 3);
  CHECK(out.fp16_overflows == 2);
}

TEST_CASE("a run without events has figures, too") {
  run_statistics x{2};
  CHECK(x.staleness_mean() == 0);
  CHECK(x.wait_share() == 0);
  CHECK(x.accepted_share() ==
        std::vector<std::optional<double>>{std::nullopt, std::nullopt});
  CHECK(!x.best_value());
  summary out;
  x.fill(out, {});
  CHECK(out.samples_per_second == 0);
  CHECK(!out.best_step);
}

TEST_CASE("gradients, samples and staleness are counted") {
  run_statistics x{2};
  x.applied(w0, 64, 0, {3, 1});
  x.applied(w1, 64, 3, {2, 2});
  x.applied(w0, 32, 1, {3, 1});
  x.dropped(w1, 64, {2, 2});
  x.refused(w4, {0, 0}); // joined later
  summary out;
  x.fill(out, {100, 8, std::nullopt});
  CHECK(out.samples_applied == 160);
  CHECK(out.samples_dropped == 64);
  CHECK(out.gradients_applied == 3);
  CHECK(out.gradients_dropped == 1);
  CHECK(out.gradients_refused == 1);
  CHECK(out.staleness.mean == 4.0 / 3);
  CHECK(out.staleness.max == 3);
  CHECK(out.staleness.histogram == std::vector<uint64_t>{1, 1, 0, 1});
  CHECK(out.wait_share == 6.0 / 16);
  CHECK(out.accepted_share == std::vector<std::optional<double>>{
                                1, 0.5, std::nullopt, std::nullopt, 0});
  CHECK(out.samples_per_second == 20);
  CHECK(out.wall_seconds == 8);
  x.fill(out, {100, 8, 40});
  CHECK(out.samples_per_second == 4);
  CHECK(out.virtual_seconds == 40);
}

TEST_CASE("the best accuracy is the first of the highest") {
  run_statistics x{1};
  x.evaluated(50, found(0.5));
  x.evaluated(100, found(0.9));
  x.evaluated(150, found(std::nan("")));
  x.evaluated(200, found(0.9));
  x.evaluated(250, found(0.8));
  summary out;
  x.fill(out, {});
  CHECK(out.best_value == 0.9);
  CHECK(out.best_step == 100);
}

TEST_CASE("the best score is that of the highest or lowest metric") {
  auto best_of = [](std::optional<config::metric_order> by,
                    const std::vector<config::metrics>& all) {
    run_statistics x{1, std::move(by)};
    for (size_t i = 0; i < all.size(); ++i)
      x.evaluated(i, all[i]);
    return x.best_step();
  };
  const std::vector<config::metrics> three{
    {{"loss", 2}, {"f1", 0.3}}, {{"loss", 1}, {"f1", 0.2}}, {{"f1", 0.4}}};
  CHECK(best_of(config::parse_order("max(f1)"), three) == 2);
  CHECK(best_of(config::parse_order("min(f1)"), three) == 1);
  CHECK(best_of({}, three) == 1); // Of the lowest loss.
  CHECK(best_of(config::parse_order("max(bleu)"), three) == std::nullopt);
  CHECK(best_of({}, {{{"f1", 1}}}) == std::nullopt);
  // The first score decides what counts.
  CHECK(best_of({}, {{{"loss", 2}}, found(0.5, 1), found(0.9, 3)}) == 1);
}

TEST_CASE("a resumed run keeps its best score unless another metric counts") {
  using config::parse_order;
  run_statistics before{1, parse_order("min(loss)")};
  before.evaluated(7, found(0.5, 0.25));
  proto::Counters saved;
  before.save(saved, {});
  run_statistics same{1};
  same.load(saved);
  CHECK(same.best_step() == 7);
  CHECK(same.best_value() == 0.25);
  run_statistics other{1, parse_order("max(accuracy)")};
  other.load(saved);
  CHECK(other.best_step() == std::nullopt);
  other.evaluated(9, found(0.1, 9));
  CHECK(other.best_step() == 9);
  proto::Counters old; // As release 0.1.0 wrote it.
  old.set_best_accuracy(0.75);
  old.set_best_step(5);
  run_statistics later{1};
  later.load(old);
  CHECK(later.best_by() == parse_order("max(accuracy)"));
  CHECK(later.best_value() == 0.75);
}

TEST_CASE("an accuracy of zero is an accuracy") {
  run_statistics x{1};
  x.evaluated(50, found(0));
  CHECK(x.best_value() == 0.0);
}

TEST_CASE("the histogram is bounded and the maximum is not") {
  run_statistics x{1};
  x.applied(w0, 1, 1u << 30, {});
  x.applied(w0, 1, run_statistics::max_staleness_place, {});
  summary out;
  x.fill(out, {});
  CHECK(out.staleness.histogram.size() ==
        run_statistics::max_staleness_place + 1);
  CHECK(out.staleness.histogram.back() == 2);
  CHECK(out.staleness.max == 1u << 30);
}

TEST_CASE("statistics that were saved and loaded go on as if never stopped") {
  auto seed = GENERATE(range(0u, 20u));
  std::mt19937 random{seed};
  run_statistics straight{3};
  happen(straight, random, 200);
  run_times times{12.5, 13.25, std::nullopt};
  if (seed % 2 == 0)
    times.virtual_seconds = 11.5;
  proto::Counters saved;
  straight.save(saved, times);
  proto::Counters read;
  REQUIRE(read.ParseFromString(saved.SerializeAsString()));
  run_statistics resumed{3};
  happen(resumed, random, 10); // forgotten by load
  auto found = resumed.load(read);
  CHECK(found.elapsed_seconds == times.elapsed_seconds);
  CHECK(found.wall_seconds == times.wall_seconds);
  CHECK(found.virtual_seconds == times.virtual_seconds);
  auto again = random;
  happen(straight, random, 100);
  happen(resumed, again, 100);
  CHECK(json_of(straight, times) == json_of(resumed, times));
  summary out;
  resumed.fill(out, times);
  CHECK(std::accumulate(out.staleness.histogram.begin(),
                        out.staleness.histogram.end(),
                        uint64_t{0}) == out.gradients_applied);
}

TEST_CASE("slowness is a worker's time beside the median of all") {
  run_statistics x{4};
  CHECK(x.slowness() == std::vector<std::optional<double>>(4));
  x.applied(w0, 1, 0, {1, 0});
  x.applied(w0, 1, 0, {3, 9});
  x.applied(w1, 1, 0, {1, 0});
  x.dropped(w2, 1, {5, 0});
  CHECK(x.slowness() ==
        std::vector<std::optional<double>>{1, 0.5, 2.5, std::nullopt});
  CHECK(x.take_recent_slowness() == x.slowness());
  // Only what came since then counts.
  x.applied(w1, 1, 0, {8, 0});
  x.refused(w2, {2, 0});
  CHECK(x.take_recent_slowness() == std::vector<std::optional<double>>{
                                      std::nullopt, 1.6, 0.4, std::nullopt});
  // And what came before a checkpoint does not.
  proto::Counters kept;
  x.save(kept, {});
  run_statistics again{4};
  again.load(kept);
  CHECK(again.slowness() == x.slowness());
  again.applied(w0, 1, 0, {4, 0});
  CHECK(again.take_recent_slowness() ==
        std::vector<std::optional<double>>{1, std::nullopt, std::nullopt,
                                           std::nullopt});
}

TEST_CASE("workers that take no time are equally slow") {
  run_statistics x{2};
  x.applied(w0, 1, 0, {});
  x.applied(w1, 1, 0, {});
  CHECK(x.slowness() == std::vector<std::optional<double>>{1, 1});
}
