#include "actors/recording/progress.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;
using namespace troupe::recording;

namespace {

progress_figures sample() {
  progress_figures result;
  result.step = 120;
  result.max_steps = 500;
  result.epoch = 3.25;
  result.loss = 0.51234;
  result.samples_per_second = 1495.3;
  result.score = {"accuracy", 0.912};
  result.workers = 8;
  result.waiting_for = {worker_id{2}};
  return result;
}

} // namespace

TEST_CASE("the line says how the run goes") {
  auto x = sample();
  CHECK(progress_line(x, 0) ==
        "step 120/500  loss 0.5123  accuracy 91.20 %  1495 samples/s  "
        "epoch 3.25  waits for worker 2");
  x.waiting_for = {worker_id{0}, worker_id{2}};
  CHECK(progress_line(x, 0).ends_with("waits for workers 0,2"));
  for (uint32_t i = 3; i < 7; ++i)
    x.waiting_for.push_back(worker_id{i});
  CHECK(progress_line(x, 0).ends_with("waits for 6 of 8 workers"));
  x.max_steps = std::nullopt;
  x.loss = std::nullopt;
  x.score = {"f1", 0.5};
  CHECK(progress_line(x, 0) ==
        "step 120  f1 0.5000  1495 samples/s  epoch 3.25  waits for 6 of 8 "
        "workers");
  x.score = std::nullopt;
  x.waiting_for.clear();
  CHECK(progress_line(x, 0) == "step 120  1495 samples/s  epoch 3.25");
}

TEST_CASE("a run that stands still says for whom it waits") {
  auto x = sample();
  CHECK(standstill_line(10.2, x, 8) ==
        "waiting      no step for 10 s: waits for worker 2");
  x.waiting_for.clear();
  CHECK(standstill_line(40, x, 8) ==
        "waiting      no step for 40 s: waits for the gradients of 8 workers");
  x.workers = 0;
  x.announced = 6;
  CHECK(standstill_line(10, x, 8) ==
        "waiting      no step for 10 s: waits for 2 of 8 workers");
  x.announced = 8;
  CHECK(standstill_line(10, x, 8) ==
        "waiting      no step for 10 s: no worker has begun");
}

TEST_CASE("the line fits any width") {
  auto whole = progress_line(sample(), 0);
  for (size_t width = 1; width < 120; ++width) {
    auto line = progress_line(sample(), width);
    CHECK(!line.empty());
    CHECK(line.size() <= width);
    CHECK(whole.starts_with(line));
  }
}

TEST_CASE("without a terminal there are plain lines, seldom") {
  progress x{0, 5};
  CHECK(x.show(sample(), 100) == progress_line(sample(), 0) + "\n");
  CHECK(!x.show(sample(), 104.9));
  CHECK(x.show(sample(), 105));
  CHECK(x.clear().empty());
  CHECK(x.show_last(sample()) == progress_line(sample(), 0) + "\n");
}

TEST_CASE("on a terminal one line is drawn over itself") {
  progress x{40};
  CHECK(x.clear().empty());
  CHECK(x.show(sample(), 0) == "\r\x1b[Kstep 120/500  loss 0.5123");
  CHECK(!x.show(sample(), 0.1));
  CHECK(x.show(sample(), 0.2));
  CHECK(x.clear() == "\r\x1b[K");
  CHECK(x.clear().empty());
  CHECK(x.show_last(sample()).ends_with("\n"));
  CHECK(x.clear().empty());
}
