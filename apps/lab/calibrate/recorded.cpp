#include "apps/lab/calibrate/recorded.hpp"

#include "actors/log_files/event_log_file.hpp"

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

class event_log_times {
public:
  explicit event_log_times(recorded_times& out) : out_(out) {
    // nop
  }

  void take(const proto::LogEvent& event) {
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
  void take(const proto::LogPulled& what, double now) {
    out_.cancelled += what.abandoned() != 0;
    asked_[what.worker()] = {false, now, {}};
  }

  void take(const proto::LogArrived& what, double now) {
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

recorded_times
read_times(const std::vector<std::filesystem::path>& event_logs) {
  recorded_times out;
  for (const auto& path : event_logs) {
    recording::event_log_reader event_log{path};
    event_log_times times{out};
    proto::LogEvent event;
    while (event_log.next(event))
      times.take(event);
  }
  return out;
}

} // namespace troupe::app
