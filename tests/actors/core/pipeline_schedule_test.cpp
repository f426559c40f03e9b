#include "actors/core/pipeline_schedule.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <optional>
#include <vector>

using namespace troupe;
using namespace troupe::cores;

using Catch::Approx;

namespace {

using schedule = std::vector<std::vector<pipeline_pass>>;

schedule schedule_of(config::pipeline_order rule, uint32_t stages, uint32_t n) {
  schedule out;
  for (uint32_t s = 0; s < stages; ++s)
    out.push_back(passes_of(rule, s, stages, n));
  return out;
}

/// Plays a schedule where forward takes 1 and backward 2 units of time.
struct played {
  uint64_t end = 0; ///< Nothing if the stages wait for each other for good.
  bool stuck = false;

  explicit played(const schedule& of) {
    auto stages = of.size();
    auto n = of[0].size() / 2;
    auto unset = std::vector<std::optional<uint64_t>>(n);
    std::vector forward(stages, unset), backward(stages, unset);
    std::vector<size_t> next(stages);
    std::vector<uint64_t> free_at(stages);
    auto moved = true;
    while (moved) {
      moved = false;
      for (size_t s = 0; s < stages; ++s) {
        if (next[s] == of[s].size())
          continue;
        auto [what, m] = of[s][next[s]];
        auto is_forward = what == pass_kind::forward;
        std::optional<uint64_t> ready = 0;
        if (is_forward && s > 0)
          ready = forward[s - 1][m];
        if (!is_forward)
          ready = s + 1 < stages ? backward[s + 1][m] : forward[s][m];
        if (!ready)
          continue;
        free_at[s] = std::max(free_at[s], *ready) + (is_forward ? 1 : 2);
        (is_forward ? forward : backward)[s][m] = free_at[s];
        ++next[s];
        moved = true;
      }
    }
    for (size_t s = 0; s < stages; ++s)
      stuck = stuck || next[s] < of[s].size();
    end = *std::ranges::max_element(free_at);
  }
};

uint32_t most_alive(const std::vector<pipeline_pass>& of) {
  uint32_t now = 0, most = 0;
  for (const auto& pass : of) {
    now += pass.what == pass_kind::forward ? 1 : -1;
    most = std::max(most, now);
  }
  return most;
}

} // namespace

TEST_CASE("each micro-batch goes forward and backward once, in order",
          "[core][pipeline]") {
  for (auto rule : {config::pipeline_order::gpipe,
                    config::pipeline_order::one_forward_one_backward})
    for (uint32_t stages = 1; stages <= 6; ++stages)
      for (uint32_t n = 1; n <= 12; ++n)
        for (const auto& stage : schedule_of(rule, stages, n)) {
          REQUIRE(stage.size() == 2 * n);
          uint32_t forward = 0, backward = 0;
          for (const auto& [what, m] : stage) {
            REQUIRE(m == (what == pass_kind::forward ? forward++ : backward++));
            REQUIRE(backward <= forward);
          }
        }
}

TEST_CASE("the stages never wait for each other for good, and idle for K - 1 "
          "micro-batches of M + K - 1",
          "[core][pipeline]") {
  for (auto rule : {config::pipeline_order::gpipe,
                    config::pipeline_order::one_forward_one_backward})
    for (uint32_t stages = 1; stages <= 6; ++stages)
      for (uint32_t n = 1; n <= 12; ++n) {
        INFO("K = " << stages << ", M = " << n);
        played it{schedule_of(rule, stages, n)};
        REQUIRE_FALSE(it.stuck);
        CHECK(it.end == 3 * (n + stages - 1));
      }
}

TEST_CASE("1F1B keeps at most as many micro-batches as stages follow",
          "[core][pipeline]") {
  for (uint32_t stages = 1; stages <= 6; ++stages)
    for (uint32_t n = 1; n <= 12; ++n)
      for (uint32_t s = 0; s < stages; ++s) {
        CHECK(
          most_alive(passes_of(config::pipeline_order::one_forward_one_backward,
                               s, stages, n)) == std::min(n, stages - s));
        CHECK(most_alive(
                passes_of(config::pipeline_order::gpipe, s, stages, n)) == n);
      }
}
