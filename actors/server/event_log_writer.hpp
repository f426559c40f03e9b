#pragma once
// Encodes the events of a parameter server for its log and hands each to a
// sink, which writes it, or compares it in a replay. Checkpoints that are
// durable are left out: a replay writes none.
//
// Not thread-safe; one owner.

#include "actors/server/event.hpp"
#include "messages/proto/event_log.pb.h"

#include <functional>
#include <utility>

namespace troupe {

/// Takes an event. Throws `run_error` when it cannot (disk full): the run fails
/// then. Called by the parameter server, in the order of its decisions.
using event_sink = std::function<void(proto::LogEvent&)>;

class event_log_writer final : public event_subscriber {
public:
  using time_point = caf::actor_clock::time_point;

  /// Begins at `now`.
  event_log_writer(event_sink sink, time_point now)
    : sink_(std::move(sink)), start_(now) {
    // nop
  }

  /// Throws what the sink throws.
  void on_event(const event& what) override;

  /// Nothing is kept any more.
  void close() { sink_ = nullptr; }

private:
  bool is_logged(const input& what);
  void fill(const inputs::started& what);
  void fill(const inputs::enlisted& what);
  void fill(const inputs::joined& what);
  void fill(const inputs::left& what);
  void fill(const inputs::pulled& what);
  void fill(const inputs::arrived& what);
  void fill(const inputs::scored& what);
  void fill(const inputs::audience& what);
  void fill(const inputs::saved&) {}
  void fill(const inputs::stopped& what);
  void fill(const inputs::failed& what);
  void fill(const inputs::ending&) {}
  void fill(const inputs::ended& what);
  void fill(const cores::orders& decided);

  event_sink sink_;
  time_point start_;
  bool ending_ = false;   ///< Workers were sent home.
  proto::LogEvent event_; ///< Its memory is used again.
};

} // namespace troupe
