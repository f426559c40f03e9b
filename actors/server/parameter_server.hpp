#pragma once
// The parameter server: owns the weights, takes gradients, and answers each
// with the next weights when the policy says so. This is the lead shard. It
// asks its step scheduler what a message means and carries out the orders,
// together with the other shards, if there are any. Its state is split into
// parts, one for each stage in the life of a gradient
// (docs/design/0018-server-events.md).
//
// It has no thread of its own. A worker that brings a gradient waits for the
// result anyway, so its thread runs the server's step
// (actors/runtime/inline_execution.hpp).
//
// With shards in other processes it holds only its own range of each version; a
// whole version, for scoring or saving, is fetched from them.

#include "actors/core/step_scheduler.hpp"
#include "actors/events/event_log_writer.hpp"
#include "actors/events/node_traffic.hpp"
#include "actors/events/turn_watch.hpp"
#include "actors/recording/note_window.hpp"
#include "actors/recording/peer_names.hpp"
#include "actors/runtime/run_clock.hpp"
#include "actors/runtime/wall_clock.hpp"
#include "actors/segments/remote_module.hpp"
#include "actors/server/checkpoint_schedule.hpp"
#include "actors/server/lead.hpp"
#include "actors/server/next_members.hpp"
#include "actors/server/run_ending.hpp"
#include "actors/server/run_metrics.hpp"
#include "actors/server/step_pipeline.hpp"
#include "actors/server/version_feed.hpp"
#include "actors/server/worker_requests.hpp"
#include "actors/shards/shard_group.hpp"
#include "actors/weights/first_weights.hpp"
#include "actors/weights/server_model.hpp"
#include "config/runs/description.hpp"
#include "config/text/one_line.hpp"
#include "messages/interfaces.hpp"
#include "messages/transport/compression/compression.hpp"
#include "messages/transport/nccl/gpu_exchange.hpp"
#include "models/optim/lanes.hpp"
#include "models/storage/best_weights.hpp"

#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// The data set that a run is trained on.
struct trained_data {
  std::string name;
  /// Of the training set; may be `cores::endless`. 0 where each worker has
  /// files of its own: then each reports its number of samples itself.
  uint64_t samples = 0;
  int64_t classes = 0;
};

/// What a life of the server begins with.
struct life_start {
  std::shared_ptr<const models::loaded_checkpoint> resumed; ///< Or null.
  /// What a run begins with that is not resumed; null: drawn when needed.
  std::shared_ptr<const first_weights> first;
  payload frozen; ///< Weights that are not trained; empty if all are.
  /// The score of the best weights that are on disk already.
  std::optional<models::best_score> best;
};

/// What a parameter server is constructed from.
struct parameter_server_parts {
  config::settings settings;
  /// Describes the run to peers; contains its id and this server's life, which
  /// is 1, or one more than in the run resumed.
  config::run_description description;
  trained_data data;
  life_start from;
  std::filesystem::path checkpoints; ///< Where they are written.
  recorder_actor recorder;
  recording::peer_names_ptr peers; ///< Learns whose worker has which place.
  checkpoint_writer_actor writer;
  models::lanes across; ///< Threads that share each pass over the weights.
  payload_memory_ptr memory = heap_memory(); ///< For versions of the weights.
  /// Under the virtual clock: when the first computation began. Else empty;
  /// then a long time without a step is reported.
  std::function<std::optional<caf::actor_clock::time_point>()> began;
  event_sink event_log; ///< Takes the events of this life; may be empty.
  /// Is told of each event after all other subscribers; or null. Under the
  /// virtual clock it is the invariant checker.
  std::shared_ptr<event_subscriber> observer;
  module_roster_ptr modules; ///< Of remote modules; null: there are none.
  /// Of this node's GPU, if the shards add up gradients over NCCL; or null.
  transport::gpu_exchange_ptr exchange{};
  uint32_t rules = policies::newest_rules; ///< Of decision.
  /// In a replay: the norm of the gradient that has just arrived; else empty.
  std::function<double()> recorded_norm{};
  /// Whether it begins the windows of policies itself; a replay has their ends
  /// in the event log.
  bool keeps_time = true;
  recording::note_window notes{}; ///< Limits how far the recorder may lag.
  /// Whether it looks for workers that hang or are late, by the clock.
  bool watches = false;
  /// Whether it says whose gradients reach the weights, for `launch`.
  bool launched = false;

  life_number life() const { return life_number{description.life}; }

  /// Shards in processes of their own.
  uint32_t remote_shards() const {
    return config::has_remote_shards(settings) ? settings.cluster.shards - 1
                                               : 0;
  }
};

/// Whether the nodes of the run outlive a life of the server that has failed.
/// Peers fail together, so that whoever has started them starts all again.
inline bool outlived_by_nodes(const config::settings& settings) {
  return !settings.simulation.faults.empty() ||
         (settings.what == config::role::ps && !config::is_peer(settings));
}

class parameter_server_state : private lead {
public:
  using pointer = lead_actor::stateful_pointer<parameter_server_state>;

  static constexpr const char* name = "troupe.parameter-server";

  parameter_server_state(pointer self, parameter_server_parts parts);

  lead_actor::behavior_type make_behavior();

private:
  /// s without a step after which it is said for whom the run waits.
  static constexpr double standstill_after = 10;
  static constexpr double finish_timeout = 30; ///< s that the end may take.
  static constexpr double save_timeout = 300;  ///< The last checkpoint.
  /// s of the grace that are kept for the summary and for members to leave; at
  /// most half of it.
  static constexpr double kept_of_grace = 6;

  // -- inputs -----------------------------------------------------------------

  /// Handles an input, now or when the steps that were decided on are made.
  template <class Input>
  void in_order(Input input);
  /// Handles the inputs and requests that waited for these steps.
  void go_on();
  void begin(const coordinator_actor& coordinator);
  void look_for_standstill();
  void look_at_turns();
  void pass_deadline(worker_id who, life_number life);
  void pass_window(version at);
  caf::result<version> change_policy(const std::string& text);
  void follow(const std::string& text);
  void push_arrived(const arrived_push& push) override;
  void push_refused(const arrived_push& push, errc why,
                    const std::string& reason) override;
  void pull_arrived(const pull_header& header) override;
  bool makes_steps() const override { return pipeline_.is_open(); }
  void enlist(inputs::enlisted cause, const worker_actor& handle);
  void join(const std::vector<worker_id>& who);
  void leave(worker_id who, life_number life, const std::string& reason);
  void take_score(const score& found);
  void set_evaluators(uint32_t evaluators);
  void stop();
  void keep_to_grace();
  void regroup(const run_end& how);
  void give_up(const std::string& line);
  void deal_anew();
  void fail_for_others(const std::string& line);

  // -- decisions --------------------------------------------------------------

  /// Tells all subscribers before the decision takes effect. When the event
  /// cannot be logged, the run fails.
  event tell(input&& cause, cores::orders&& decided);
  void carry_out(const event& at);
  void attempt(const std::function<void()>& work) override;
  void attempt_later(const std::function<void()>& work) override;
  void push_settled(const push_id& id, bool applied) override;
  void steps_ordered(const cores::orders& decided) override;
  void versions_made(version before, version made) override;
  void decision_done(const cores::orders& decided) override;
  release_header header_for(const cores::release_order& ready) const;
  /// Tells the subscribers, then carries out the orders.
  void decide(input&& cause, cores::orders&& decided = {});

  void expel(worker_id who, life_number life, const std::string& reason);
  bool is_better_than_kept(const score& found) const;
  void keep_if_best(const score& found);
  void stop_workers(const std::string& reason) override;
  void finish_work() override;
  void hand_over_last();
  void give_up_saving() override;
  void saving_takes_too_long(double limit);
  void write_early_summary();
  void close_run() override;
  void write_summary();
  void leave_run();

  // -- helpers ----------------------------------------------------------------

  run_metrics_parts metrics_parts();
  node_bytes bytes_of_nodes() const;
  transport::codec_ptr make_codec() const;
  uint64_t bytes_of(const arrived_push& push) const;
  worker_requests_parts requests_parts();
  step_pipeline_parts pipeline_parts();
  version_feed_parts feed_parts();
  checkpoint_schedule_parts schedule_parts();

  // -- saving and the summary (parameter_server_saving.cpp)
  // --------------------

  version newest() const override { return newest_; }
  double elapsed() const override { return clock_.elapsed(self_); }
  void record(const note_ptr& what_happened) override;
  void describe(snapshot& out) const override;
  std::vector<served_worker> workers() const override;
  void state_collected(const snapshot& state) override;
  void state_saved(const snapshot& state, const std::string& name) override;
  void saving_failed(const std::string& line) override;
  void saving_is_idle() override;
  std::vector<uint64_t> staying_checkpoints() const;
  recording::run_times times() const;
  std::optional<std::string> final_state_sha256() const;
  /// The score of the newest version, if it is known.
  std::optional<score> final_score() const;
  recording::summary make_summary() const;

  pointer self_;
  parameter_server_parts parts_;
  server_model model_;
  shard_group shards_;
  cores::step_scheduler scheduler_;
  version newest_; ///< Made; the scheduler may have decided on later ones.
  run_clock clock_;
  wall_clock wall_;
  recording::run_times before_; ///< From the checkpoint.
  caf::actor_clock::time_point last_update_;
  coordinator_actor coordinator_;
  std::map<std::string, std::string> transports_; ///< Of each worker so far.
  std::optional<models::best_score> best_; ///< Of the best weights on disk.
  uint32_t contexts_waited_ = 0; ///< How often, at the end of the run.
  bool last_is_wanted_ = false;  ///< Somebody takes the last weights.
  // With remote shards: the digests of the version that the run ends with.
  std::optional<std::string> weights_sha256_;
  std::optional<std::string> state_sha256_;
  next_members next_;
  bool told_to_stop_ = false; ///< By a signal.
  /// Operators who wait until their change of the policy is durable.
  std::vector<caf::typed_response_promise<version>> changing_;
  std::optional<double> end_by_; ///< On the run's clock, if told to stop.
  /// Inputs that came while a decision's steps were made, in their order.
  std::deque<std::function<void()>> waiting_;

  std::shared_ptr<event_log_writer> log_; ///< Or null.
  std::shared_ptr<run_metrics> metrics_;
  std::shared_ptr<node_traffic> traffic_;
  transport::codec_ptr codec_;        ///< Of gradients on their way; or null.
  std::shared_ptr<turn_watch> turns_; ///< Or null.
  event_stream events_;
  worker_requests requests_;
  step_pipeline pipeline_;
  version_feed feed_;
  checkpoint_schedule checkpoints_;
  run_ending ending_;
};

} // namespace troupe
