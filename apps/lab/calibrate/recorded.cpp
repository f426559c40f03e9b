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

  void note_event(const proto::LogEvent& event) {
    auto now = static_cast<double>(event.time_ns()) * seconds_per_tick;
    if (event.has_enlisted())
      asked_.erase(event.enlisted().worker());
    else if (event.has_pulled())
      note_event(event.pulled(), now);
    else if (event.has_arrived())
      note_event(event.arrived(), now);
    for (const auto& release : event.decision().releases())
      asked_[release.worker()].released = now;
  }

private:
  void note_event(const proto::LogPulled& record, double now) {
    out_.cancelled += record.abandoned() != 0;
    asked_[record.worker()] = {false, now, {}};
  }

  void note_event(const proto::LogArrived& record, double now) {
    out_.compute[record.worker()].push_back(record.compute_seconds());
    const auto& before = asked_[record.worker()];
    if (before.is_push && before.released)
      out_.travel.push_back(std::max(0.0, record.wait_seconds() -
                                            (*before.released - before.asked)));
    asked_[record.worker()] = {record.refused().empty(), now, {}};
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
      times.note_event(event);
  }
  return out;
}

} // namespace troupe::app
