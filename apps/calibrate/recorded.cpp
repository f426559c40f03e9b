#include "apps/calibrate/recorded.hpp"

#include "actors/recording/tape_file.hpp"

#include <algorithm>
#include <optional>

namespace troupe::app {

namespace {

constexpr double seconds_per_tick = 1e-9;

/// A worker's last request for weights.
struct request {
  bool is_push = false;
  double asked = 0; ///< s on the server's clock
  std::optional<double> released;
};

class tape_times {
public:
  explicit tape_times(recorded_times& out) : out_(out) {
    // nop
  }

  void take(const proto::TapeEvent& event) {
    auto now = static_cast<double>(event.time_ns()) * seconds_per_tick;
    if (event.has_enlisted())
      asked_.erase(event.enlisted().worker());
    else if (event.has_pulled())
      take(event.pulled(), now);
    else if (event.has_arrived())
      take(event.arrived(), now);
    for (const auto& release : event.decision().releases())
      asked_[release.worker()].released = now;
  }

private:
  void take(const proto::TapePulled& what, double now) {
    out_.cancelled += what.abandoned() != 0;
    asked_[what.worker()] = {false, now, {}};
  }

  void take(const proto::TapeArrived& what, double now) {
    out_.compute[what.worker()].push_back(what.compute_seconds());
    const auto& before = asked_[what.worker()];
    if (before.is_push && before.released)
      out_.travel.push_back(
        std::max(0.0, what.wait_seconds() - (*before.released - before.asked)));
    asked_[what.worker()] = {what.refused().empty(), now, {}};
  }

  recorded_times& out_;
  std::map<uint32_t, request> asked_;
};

} // namespace

recorded_times read_times(const std::vector<std::filesystem::path>& tapes) {
  recorded_times out;
  for (const auto& path : tapes) {
    recording::tape_reader tape{path};
    tape_times times{out};
    proto::TapeEvent event;
    while (tape.next(event))
      times.take(event);
  }
  return out;
}

} // namespace troupe::app
