#pragma once
// Encodes the events of a parameter server for the event log and passes each to
// a sink. The sink writes it, or in a replay compares it with the recorded one.
// Events about durable checkpoints are left out, because a replay writes no
// checkpoints.
//
// Owned by the parameter server and called on its thread; not thread-safe.

#include "actors/events/event.hpp"
#include "messages/proto/event_log.pb.h"

#include <functional>
#include <utility>

namespace troupe {

/// Takes an event, in the order of the server's decisions. Throws `run_error`
/// when it cannot (disk full); then the run fails.
using event_sink = std::function<void(proto::LogEvent&)>;

class event_log_writer final : public event_subscriber {
public:
  using time_point = caf::actor_clock::time_point;

  /// @param now The time from which the times of events are counted.
  event_log_writer(event_sink sink, time_point now)
    : sink_(std::move(sink)), start_(now) {
    // nop
  }

  /// Throws whatever the sink throws; later events are ignored then.
  void on_event(const event& entry) override;

private:
  bool is_logged(const input& cause);
  void fill(const inputs::started& cause);
  void fill(const inputs::enlisted& cause);
  void fill(const inputs::joined& cause);
  void fill(const inputs::left& cause);
  void fill(const inputs::pulled& cause);
  void fill(const inputs::arrived& cause);
  void fill(const inputs::deadline_passed& cause);
  void fill(const inputs::window_over& cause);
  void fill(const inputs::policy_changed& cause);
  void fill(const inputs::scored& cause);
  void fill(const inputs::evaluators& cause);
  void fill(const inputs::saved&) {}
  void fill(const inputs::stopped& cause);
  void fill(const inputs::failed& cause);
  void fill(const inputs::ending&) {}
  void fill(const inputs::ended& cause);
  void fill(const cores::orders& decided);

  event_sink sink_;
  time_point start_;
  bool ending_ = false;   ///< Training has ended.
  proto::LogEvent event_; ///< Reused, to save allocations.
};

} // namespace troupe
