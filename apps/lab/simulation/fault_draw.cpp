#include "apps/lab/simulation/fault_draw.hpp"

#include "actors/core/counter_random.hpp"

#include <algorithm>
#include <cmath>

namespace troupe::cores {

namespace {

using config::fault_kind;

/// Distinguishes this use of the seed from others.
constexpr uint64_t stream = 0x6661756c74730001u;
constexpr uint64_t stream_of_ends = 0x6661756c74730002u;

/// The kinds that are drawn. In half of the cases in which the server would
/// crash, its life fails instead.
constexpr size_t drawn_kinds = 10;

class drawer {
public:
  drawer(const config::random_faults& odds, uint32_t workers)
    : random_{odds.seed ^ stream}, ends_{odds.seed ^ stream_of_ends},
      until_(odds.until), workers_(workers) {
    // nop
  }

  config::fault next() {
    config::fault out;
    out.at = rounded(random_.uniform() * until_);
    out.what = static_cast<fault_kind>(below(drawn_kinds));
    if (config::meets_worker(out.what))
      out.worker = static_cast<uint32_t>(below(workers_));
    fill(out);
    // This comes from a stream of its own, so that it changes no other draw.
    if (out.what == fault_kind::crash_server && ends_.next() % 2 == 0)
      out.what = fault_kind::fail_server;
    return out;
  }

private:
  void fill(config::fault& out) {
    switch (out.what) {
    case fault_kind::crash:
      if (below(8) != 0 || gone_for_good_ + 1 >= workers_)
        out.lasts = between(0.2, 8);
      else
        ++gone_for_good_;
      break;
    case fault_kind::crash_server:
    case fault_kind::fail_server:
      out.lasts = between(0.2, 6);
      break;
    case fault_kind::slow:
      out.by = between(2, 10);
      out.lasts = between(2, 20);
      break;
    case fault_kind::cut:
    case fault_kind::cut_up:
    case fault_kind::cut_down:
      out.lasts = between(0.5, 30);
      break;
    case fault_kind::pause:
    case fault_kind::stall_recorder:
      out.lasts = between(0.5, 10);
      break;
    case fault_kind::delay:
      out.by = between(0.1, 4);
      out.lasts = between(1, 15);
      break;
    case fault_kind::duplicate:
      out.by = below(3) == 0 ? 0 : between(0.1, 6);
      out.lasts = between(2, 20);
      break;
    }
  }

  uint64_t below(uint64_t n) { return random_.next() % n; }

  /// Short times are as frequent as long ones.
  double between(double least, double most) {
    return rounded(least * std::pow(most / least, random_.uniform()));
  }

  /// Rounded to ms, so that a printed schedule is exact.
  static double rounded(double x) { return std::round(x * 1000) / 1000; }

  counter_random random_;
  counter_random ends_;
  double until_;
  uint32_t workers_;
  uint32_t gone_for_good_ = 0;
};

} // namespace

std::vector<config::fault> draw_faults(const config::random_faults& odds,
                                       uint32_t workers) {
  drawer draw{odds, workers};
  std::vector<config::fault> result;
  for (uint32_t i = 0; i < odds.faults; ++i)
    result.push_back(draw.next());
  std::ranges::stable_sort(result, {}, &config::fault::at);
  return result;
}

} // namespace troupe::cores
