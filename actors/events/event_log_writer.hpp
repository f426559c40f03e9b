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
  void on_event(const event& what) override;

private:
  bool is_logged(const input& what);
  void fill(const inputs::started& what);
  void fill(const inputs::enlisted& what);
  void fill(const inputs::joined& what);
  void fill(const inputs::left& what);
  void fill(const inputs::pulled& what);
  void fill(const inputs::arrived& what);
  void fill(const inputs::deadline_passed& what);
  void fill(const inputs::scored& what);
  void fill(const inputs::evaluators& what);
  void fill(const inputs::saved&) {}
  void fill(const inputs::stopped& what);
  void fill(const inputs::failed& what);
  void fill(const inputs::ending&) {}
  void fill(const inputs::ended& what);
  void fill(const cores::orders& decided);

  event_sink sink_;
  time_point start_;
  bool ending_ = false;   ///< Training has ended.
  proto::LogEvent event_; ///< Reused, to save allocations.
};

} // namespace troupe
