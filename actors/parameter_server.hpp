#pragma once
// The parameter server: owns the weights, takes gradients, and answers each
// with the next weights when the policy says so. This is the lead shard: it
// asks its conductor what a message means and carries the orders out, together
// with the other shards, if there are any.
//
// Has no thread of its own: whoever brings a gradient waits for what follows
// from it, and takes the step (actors/errands.hpp).
//
// With shards in processes of their own it has only its own range of each
// version; what is scored or saved as a whole is fetched from them.

#include "actors/clock/run_clock.hpp"
#include "actors/clock/wall_clock.hpp"
#include "actors/cores/conductor.hpp"
#include "actors/cores/evaluation_board.hpp"
#include "actors/cores/note_window.hpp"
#include "actors/event_tape.hpp"
#include "actors/notes.hpp"
#include "actors/recording/run_statistics.hpp"
#include "actors/remote_crew.hpp"
#include "actors/server_model.hpp"
#include "actors/witness.hpp"
#include "config/description.hpp"
#include "config/one_line.hpp"
#include "config/run_lock.hpp"
#include "messages/gradient_sums.hpp"
#include "messages/interfaces.hpp"
#include "models/best_weights.hpp"
#include "models/lanes.hpp"
#include "models/learning_rate.hpp"

#include <deque>
#include <exception>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace troupe {

/// What a parameter server is made of.
struct parameter_server_parts {
  config::settings settings;
  std::string config_ini; ///< The resolved configuration, for checkpoints.
  std::string config_digest;
  /// What the run is; with `life`, which is that of this server.
  config::run_description description;
  /// Of the run directory: held as long as the server lives. May be null.
  std::shared_ptr<const config::run_lock> lock;
  std::string run_id;
  std::string dataset; ///< Name of the data set.
  /// In the training set; may be `cores::endless`. 0 where each worker has
  /// files of its own, and tells of them itself.
  uint64_t samples = 0;
  int64_t classes = 0;
  incarnation life{1}; ///< Of this server: 1, or one more than before.
  std::shared_ptr<const models::loaded_checkpoint> resumed; ///< Or null.
  /// The score of the best weights that are kept already.
  std::optional<models::best_score> best;
  recorder_actor recorder;
  checkpoint_writer_actor writer;
  models::lanes across; ///< Threads that share the passes over the weights.
  uint32_t remote_shards = 0; ///< How many have processes of their own.
  int threads = 1; ///< Intra-op threads where all actors share one thread.
  payload_memory_ptr memory = heap_memory(); ///< For versions of the weights.
  /// Virtual clock: when the first computation began. Else empty.
  std::function<std::optional<caf::actor_clock::time_point>()> began;
  tape_sink tape; ///< Takes the events of this life; may be empty.
  std::shared_ptr<witness> watch; ///< Virtual clock: told of all; or null.
  gradient_sums_ptr sums;     ///< Where gradients are added up before; or null.
  cores::note_window notes{}; ///< How far the recorder may be behind.
  double finish_timeout = 30; ///< s that its end may take.
  double save_timeout = 300;  ///< The same of the last checkpoint.
};

class parameter_server_state {
public:
  using pointer = lead_actor::stateful_pointer<parameter_server_state>;

  static constexpr const char* name = "troupe.parameter-server";

  parameter_server_state(pointer self, parameter_server_parts parts);

  lead_actor::behavior_type make_behavior();

private:
  using weights_promise = caf::typed_response_promise<release_header, payload>;
  using watch_promise = caf::typed_response_promise<watch_header, payload>;
  using weights_result = caf::result<release_header, payload>;
  using watch_result = caf::result<watch_header, payload>;

  /// A worker, and its request that waits for an answer.
  struct member {
    incarnation life;
    worker_actor handle;
    std::optional<weights_promise> asks;
    sequence request; ///< That it asks by.
    sequence settled; ///< Its last gradient that is applied or dropped.
  };

  /// A gradient that the policy has not yet decided on.
  struct held_push {
    push_header header;
    payload gradient;
  };

  /// A push that is not looked at yet.
  struct new_push {
    push_header header;
    payload gradient;
    weights_promise asks;
  };

  /// Pushes of one sum, until all are here.
  struct gathered_sum {
    gradient_sum what;
    std::vector<new_push> here;
  };

  /// A step that is being made.
  struct closing_step {
    std::vector<held_push> parts;
    std::vector<payload> gradients;
    std::vector<double> shares; ///< Of each in their mean.
    at::Tensor next;            ///< Memory of the version that it makes.
    double lr = 0;
    double scale = 1; ///< Of the mean of the gradients.
  };

  /// An evaluator that waits for a version after the one it has seen.
  struct watcher {
    watch_promise asks;
    version after;
  };

  /// s for which a worker may take to make its residual durable.
  static constexpr double patience_with_a_worker = 10;

  /// How the run comes to its end, stage by stage.
  struct ending {
    std::string status;  ///< completed | stopped | failed
    std::string line;    ///< For the user, when it failed.
    bool scored = false; ///< The last score is there, or given up.
    bool saved = false;  ///< The last checkpoint, and the best weights, are
                         ///< durable, or given up.
    bool closed = false; ///< The summary was asked for.
  };

  // -- what workers send, and who they are (parameter_server.cpp) -------------

  void begin(const coordinator_actor& coordinator);
  weights_result push(const push_header& header, const payload& gradient);
  weights_result pull(const pull_header& header);
  void accept(const push_header& header, const payload& gradient,
              weights_promise asks);
  void accept(const pull_header& header, weights_promise asks);
  errc check(const push_header& header, const payload& gradient) const;
  void take(const push_header& header, const payload& gradient, bool sound);
  void hear(const pull_header& header);
  caf::error refuse(const push_header& header, errc why);
  void expel(worker_id who, incarnation life, const std::string& reason);
  caf::error objection(const push_header& header);
  void hold(const request_id& id, weights_promise asks);
  caf::error unwelcome(worker_id who, incarnation life,
                       incarnation server) const;
  void enlist(worker_id who, incarnation life, const std::string& transport,
              const owned_data& data, const worker_actor& handle);
  void join(const std::vector<worker_id>& who);
  void leave(worker_id who, incarnation life, const std::string& reason);
  void set_audience(uint32_t evaluators);
  void stop();
  lease lease_of(const push_header& header) const;
  std::vector<config::change> changes_of_this_life() const;
  static recording::push_times times_of(const push_header& header);
  double elapsed() const;
  double epochs() const;
  recording::run_times times() const;

  // -- what waits to be looked at (parameter_server_waiting.cpp) --------------

  bool must_wait() const;
  void proceed();
  void accept_part(const gradient_sum& of, new_push what);
  bool in_order(const gathered_sum& what) const;
  void take_sum(gathered_sum what);
  void take_part(new_push one);
  void give_up(const gathered_sum& what);
  void leave_sums(worker_id who, incarnation life);
  void answer_waiting();

  // -- steps and versions (parameter_server_steps.cpp) ------------------------

  void carry_out(cores::orders what);
  void make(const cores::update_order& step);
  void finish(const cores::orders& what);
  closing_step close(const cores::update_order& step);
  static std::vector<push_id> ids_of(const closing_step& what);
  void publish(const cores::update_order& step, closing_step& made);
  void show_to_witness(version makes,
                       const std::vector<held_push>& parts) const;
  void drop(const cores::dropped_push& what);
  void release(const cores::release_order& what);
  void cancel(worker_id who);
  void note_update(const cores::update_order& step, const closing_step& made);
  void note_epochs();
  double samples_per_second() const;
  recording::progress_figures progress() const;
  watch_result watch(version after);
  void show_due();
  void fetch_due();
  void serve_watchers();
  void keep_whole(version of, const at::Tensor& weights);
  void take_score(const score& found);
  void remember(version shown, const payload& weights);
  void keep_if_best(const score& found);
  bool checkpoint();
  void save(snapshot_ptr what);
  void keep_left_out();
  void settle(const push_id& id);
  void write_next();
  void note_written(const snapshot& what, const std::string& name);
  void note_shards(const caf::error& why);

  // -- the end (parameter_server_ending.cpp) ----------------------------------

  void begin_ending(std::string status, std::string reason);
  void fail(std::string line);
  void fail_for_others(const std::string& line);
  void lose_tape(const std::string& line);
  void send_workers_home();
  void note_last_score();
  void give_score_up();
  void note_saved();
  void give_saving_up();
  void close_if_done();
  void leave_stage();
  void collect(std::function<void(const snapshot_ptr&)> then);
  void note_state(const snapshot& what);
  std::optional<std::string> final_state_sha256() const;
  recording::summary make_summary() const;

  /// Tells the witness, if there is one.
  template <class... Ts, class... Us>
  void tell(void (witness::*what)(Ts...), const Us&... about) const {
    if (parts_.watch)
      (parts_.watch.get()->*what)(about...);
  }

  template <class What>
  void record_at(version step, What&& what) {
    note_ptr line = std::make_shared<note>(
      note{step.value, elapsed(), std::forward<What>(what)});
    if (!parts_.notes.send())
      return self_->send(parts_.recorder, note_atom_v, line);
    self_->request(parts_.recorder, caf::infinite, note_atom_v, line)
      .then([this] { proceed(); },
            [](const caf::error&) {
              // It is dead: the supervisor ends the run.
            });
  }

  /// To the tape, before anybody learns what was decided.
  template <class Input>
  void keep(const Input& what, const cores::orders& decided = {}) try {
    if (tape_)
      tape_.keep(self_->clock().now(), what, decided);
  } catch (const std::exception& err) {
    lose_tape(one_line(err));
  }

  /// Does something that may throw: then the run has failed.
  template <class F>
  void attempt(F what) try {
    what();
  } catch (const std::exception& err) {
    fail(one_line(err));
  }

  template <class What>
  void record(What&& what) {
    record_at(conductor_.current(), std::forward<What>(what));
  }

  pointer self_;
  parameter_server_parts parts_;
  server_model model_;
  remote_crew remotes_;
  cores::conductor conductor_;
  cores::evaluation_board board_;
  models::learning_rate lr_;
  recording::run_statistics statistics_;
  run_clock clock_;
  event_tape tape_;
  wall_clock wall_;
  recording::run_times before_; ///< Those of the checkpoint.
  caf::actor_clock::time_point last_update_;
  double last_loss_ = std::numeric_limits<double>::quiet_NaN();
  double progress_due_ = 0; ///< On `wall_`: when to tell a watcher again.
  coordinator_actor coordinator_;
  policies::by_rank<member> members_;
  std::map<std::string, std::string> transports_; ///< Of all workers so far.
  std::unordered_map<push_id, held_push, cores::push_hash> held_;
  std::vector<watcher> watchers_;
  uint32_t audience_ = 0;
  uint64_t epochs_noted_ = 0;
  version due_version_;
  payload due_weights_; ///< The version that is due for scoring.
  std::optional<version> fetching_due_;
  payload whole_; ///< What was last fetched from remote shards.
  version whole_version_;
  std::map<version, payload> shown_; ///< Given to evaluators, not yet scored.
  std::optional<score> last_score_;
  std::optional<models::best_score> best_; ///< Of the weights that are kept.
  std::optional<version> last_checkpoint_;
  /// With remote shards: of the version that the run ends with.
  std::optional<std::string> state_sha256_;
  size_t saving_ = 0;  ///< Snapshots that shards still add to.
  size_t keeping_ = 0; ///< Workers that still make their residual durable.
  bool writing_ = false;
  snapshot_ptr next_snapshot_; ///< Waits for the writer; the newest counts.
  snapshot_ptr next_best_;     ///< The same of the best weights.
  std::optional<ending> ending_;
  std::deque<std::function<void()>> waiting_; ///< Requests, in their order.
  std::map<uint64_t, gathered_sum> gathered_;
};

} // namespace troupe
