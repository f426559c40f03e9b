#pragma once
// The replay driver replays an event log: it takes the place of all actors
// except the parameter server and its two writers, and sends what the event log
// recorded, at the recorded times. It acts as coordinator and as all workers;
// it computes gradients from the weights that each worker was last released
// with.
//
// An actor, under the virtual clock only: it sends an event when nobody has
// anything left to do for the one before.

#include "apps/lab/replay/recomputing.hpp"
#include "apps/lab/replay/recorded_run.hpp"
#include "messages/interfaces.hpp"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe::replay {

using replay_driver_actor = coordinator_actor::extend_with<worker_actor>;

struct replay_driver_parts {
  lead_actor lead;
  supervisor_actor supervisor;
  std::shared_ptr<recorded_run> event_log;
  std::shared_ptr<recomputing> gradients;  ///< Null: nothing is trained.
  std::vector<payload_shape> gradients_of; ///< By fragment of the weights.
  std::vector<owned_data> own_data; ///< Of ranks with files of their own.
  /// Whether gradients must equal the recorded ones to the last bit, so that a
  /// different loss ends the replay. Otherwise the difference is reported once.
  bool strict = true;
  std::function<void(const std::string&)> say;
  /// Receives the time at which the first worker was released.
  std::shared_ptr<std::optional<caf::actor_clock::time_point>> began;
};

class replay_driver_state {
public:
  using pointer = replay_driver_actor::stateful_pointer<replay_driver_state>;

  static constexpr const char* name = "troupe.replay-driver";

  replay_driver_state(pointer self, replay_driver_parts parts);

  replay_driver_actor::behavior_type make_behavior();

private:
  /// A worker of the event log.
  struct seat {
    life_number life;
    std::optional<version> reads; ///< The version it was last given.
    bool dropped = false;         ///< Its gradient before that was discarded.
    payload weights;
    uint32_t fragment = 0; ///< As in a release_header.
    bool goes_on = false;  ///< The same.
    payload statistics;    ///< Its own, under `--buffers local`.
    std::map<lease_id, lease> work;
  };

  void watch();
  void await_next();
  void begin();
  void prompt();
  void act(const proto::LogEvent& event);
  void enlist(const proto::LogEnlisted& record);
  void require_same(worker_id who, const owned_data& data) const;
  void allow_rounding(worker_id who, const std::string& device);
  void join(const proto::LogJoined& record);
  void leave(const proto::LogLeft& record);
  void pull(const proto::LogPulled& record);
  void push(const proto::LogArrived& record);
  void change_policy(const std::string& policy);
  void report(const proto::LogScored& record);

  payload gradient_of(const proto::LogArrived& record, real& loss);
  std::vector<lease> leases_of(const proto::LogArrived& record,
                               seat& from) const;
  payload unusable(const std::string& why, uint32_t fragment) const;
  void compare_losses(real in_event_log, real& found);
  seat& seat_of(uint32_t worker, uint32_t life);
  template <class Request>
  void await_weights(worker_id who, Request request);
  void take_weights(worker_id who, life_number life,
                    const release_header& header, const payload& weights);

  void end_of_event_log();
  void stop_here();
  void fail(const std::string& line);
  void ending();
  void leave_run(run_end how);

  pointer self_;
  replay_driver_parts parts_;
  caf::actor_clock::time_point start_;
  std::map<worker_id, seat> seats_;
  bool stopped_by_us_ = false;
  bool begun_ = false; ///< The server has a coordinator.
  bool over_ = false;  ///< The end of the run was sent.
  bool losses_differ_ = false;
  push_id computed_; ///< Whose gradient was computed last.
};

} // namespace troupe::replay
