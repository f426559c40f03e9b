#include "apps/lab/simulation/fault_injector.hpp"

#include "actors/runtime/run_clock.hpp"
#include "actors/runtime/spawning.hpp"
#include "actors/runtime/virtual_time.hpp"

#include <algorithm>
#include <utility>

namespace troupe::simulation {

namespace {

using config::fault;
using config::fault_kind;

class fault_injector_state {
public:
  using pointer = fault_injector_actor::stateful_pointer<fault_injector_state>;

  static constexpr const char* name = "troupe.fault-injector";

  fault_injector_state(pointer self, fault_injector_parts parts)
    : self_(self), parts_(std::move(parts)), clock_(self) {
    // nop
  }

  fault_injector_actor::behavior_type make_behavior() {
    for (const auto& next : parts_.schedule)
      self_->run_delayed(to_timespan(next.at), [this, next] { enact(next); });
    return {[this](tick_atom) {
      start_server_after(restart_);
    }};
  }

private:
  void enact(const fault& incident) {
    if (incident.what == fault_kind::crash)
      crash_worker(incident);
    else if (incident.what == fault_kind::crash_server)
      crash_server(incident);
    else if (incident.what == fault_kind::fail_server)
      fail_server(incident);
    else if (incident.what == fault_kind::pause)
      pause(incident);
    else if (incident.what == fault_kind::stall_recorder)
      stall_recorder(incident);
    else {
      disturb(incident);
      note(incident);
    }
  }

  /// A worker that is down already cannot crash.
  void crash_worker(const fault& incident) {
    worker_id who{incident.worker};
    if (!down_.insert(who).second)
      return;
    note(incident);
    parts_.watch->process(who, false);
    parts_.end_worker(who);
    if (incident.lasts)
      self_->run_delayed(to_timespan(*incident.lasts), [this, who] {
        down_.erase(who);
        parts_.watch->process(who, true);
        parts_.start_worker(who);
      });
  }

  void crash_server(const fault& incident) {
    if (std::exchange(server_down_, true))
      return;
    note(incident);
    parts_.end_server();
    start_server_after(*incident.lasts);
  }

  void fail_server(const fault& incident) {
    if (std::exchange(server_down_, true))
      return;
    note(incident);
    restart_ = *incident.lasts;
    parts_.fail_server();
  }

  void start_server_after(double seconds) {
    self_->run_delayed(to_timespan(seconds), [this] {
      server_down_ = false;
      parts_.start_server();
    });
  }

  /// Suspends the process: time passes while no actor runs.
  void pause(const fault& incident) {
    note(incident);
    parts_.machine->slept += *incident.lasts;
    virtual_time{self_->system()}.advance(to_timespan(*incident.lasts));
  }

  void stall_recorder(const fault& incident) {
    note(incident);
    auto& until = parts_.machine->recorder_stalls_until;
    until =
      std::max(until, self_->clock().now() + to_timespan(*incident.lasts));
  }

  /// Overlapping faults last until the later end, with the strength of the
  /// newer one.
  void disturb(const fault& incident) {
    worker_id who{incident.worker};
    auto until = self_->clock().now() + to_timespan(*incident.lasts);
    auto& line = (*parts_.lines)[who];
    auto& slow = parts_.machine->slow[who];
    switch (incident.what) {
    case fault_kind::slow:
      slow = {std::max(slow.until, until), incident.by};
      break;
    case fault_kind::cut:
      line.up_cut_until = std::max(line.up_cut_until, until);
      line.down_cut_until = std::max(line.down_cut_until, until);
      break;
    case fault_kind::cut_up:
      line.up_cut_until = std::max(line.up_cut_until, until);
      break;
    case fault_kind::cut_down:
      line.down_cut_until = std::max(line.down_cut_until, until);
      break;
    case fault_kind::delay:
      line.slow_until = std::max(line.slow_until, until);
      line.by = incident.by;
      break;
    default:
      line.copied_until = std::max(line.copied_until, until);
      line.copied_after = incident.by;
    }
  }

  void note(const fault& incident) {
    parts_.watch->enacted(incident, clock_.elapsed(self_) -
                                      parts_.machine->slept +
                                      incident.lasts.value_or(0));
  }

  pointer self_;
  fault_injector_parts parts_;
  run_clock clock_;
  std::set<worker_id> down_;
  bool server_down_ = false; ///< Or about to be.
  double restart_ = 0;       ///< s, between a life that fails and the next one.
};

} // namespace

fault_injector_actor spawn_fault_injector(caf::actor_system& system,
                                          fault_injector_parts parts) {
  return spawn<fault_injector_actor, fault_injector_state>(
    system, placement::scheduled, std::move(parts));
}

} // namespace troupe::simulation
