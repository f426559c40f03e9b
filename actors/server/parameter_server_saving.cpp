// What the parameter server saves and records, how a run ends, and its summary.

#include "actors/runtime/tensor_payload.hpp"
#include "actors/server/parameter_server.hpp"
#include "actors/server/restore.hpp"
#include "config/text/failure.hpp"
#include "config/text/value.hpp"
#include "config/text/version.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

namespace troupe {

// -- notes and checkpoints ----------------------------------------------------

// The recorder acknowledges notes in batches: until then requests may have to
// wait.
void parameter_server_state::record(const note_ptr& what_happened) {
  if (!parts_.notes.send())
    return self_->send(parts_.recorder, note_atom_v, what_happened);
  self_->request(parts_.recorder, caf::infinite, note_atom_v, what_happened)
    .then([this] { requests_.proceed(); },
          [](const caf::error&) {
            // It is dead: the supervisor ends the run.
          });
}

void parameter_server_state::describe(snapshot& out) const {
  fill_manifest(parts_, scheduler_, out.manifest);
  metrics_->statistics().save(*out.manifest.mutable_counters(), times());
  out.manifest.mutable_counters()->set_samples_partly_applied(
    scheduler_.partly_applied());
  out.stays = staying_checkpoints();
}

std::vector<served_worker> parameter_server_state::workers() const {
  return requests_.all();
}

/// With `--keep-best full`: the best checkpoint, and those that may become it.
std::vector<uint64_t> parameter_server_state::staying_checkpoints() const {
  std::vector<uint64_t> out;
  if (parts_.settings.checkpoint.keep_best != config::best_rule::full)
    return out;
  for (auto each : feed_.unscored())
    out.push_back(each.value);
  if (best_)
    out.push_back(best_->step);
  if (auto step = metrics_->statistics().best_step())
    out.push_back(*step);
  return out;
}

// Keeps the digests of the version that the run ends with, for the summary.
void parameter_server_state::state_collected(const snapshot& state) try {
  if (!ending_.begun() || state.manifest.step() != newest_.value)
    return;
  weights_sha256_ = weights_sha256(state);
  state_sha256_ = state_sha256(state);
} catch (const run_error&) {
  // A GPU has failed, of which the writer will tell.
}

void parameter_server_state::state_saved(const snapshot& state,
                                         const std::string& name) {
  if (state.settings)
    for (auto& asks : std::exchange(changing_, {}))
      asks.deliver(version{state.manifest.step()});
  else if (state.best)
    best_ = {state.best->weights.value, state.best->metrics};
  else
    tell(inputs::saved{version{state.manifest.step()}, name}, {});
}

void parameter_server_state::saving_failed(const std::string& line) {
  fail_for_others(line);
}

void parameter_server_state::saving_is_idle() {
  if (!ending_.begun() || !checkpoints_.is_idle())
    return;
  ending_.saved();
  write_early_summary();
}

// -- the end ------------------------------------------------------------------

void parameter_server_state::stop_workers(const std::string& reason) {
  tell(inputs::ending{reason}, {});
  requests_.close();
  shards_.finish();
  pipeline_.clear();
  if (!waiting_.empty()) // A failure ended the step that they waited for.
    self_->run_delayed(caf::timespan{0}, [this] { go_on(); });
  if (parts_.modules)
    parts_.modules->end();
  // When a life has failed, the nodes find the next one by themselves.
  if (!ending_.has_failed() || !outlived_by_nodes(parts_.settings))
    self_->send(coordinator_, ending_atom_v);
}

void parameter_server_state::finish_work() {
  if (next_.all().empty()) {
    attempt([this] { feed_.finish(); });
    hand_over_last();
  }
  // If this version is saved already, only its digest is needed.
  if (!checkpoints_.take_checkpoint() && model_.has_weights() &&
      shards_.any() && shards_.complete())
    checkpoints_.collect([this](const snapshot_ptr& whole) {
      state_collected(*whole);
      saving_is_idle();
    });
  if (feed_.evaluators() == 0 || !feed_.last_open())
    ending_.scored();
  else
    self_->delayed_send(
      self_, to_timespan(parts_.settings.evaluation.eval_timeout), tick_atom_v);
  if (!ending_.is_closed())
    self_->run_delayed(to_timespan(save_timeout),
                       [this] { saving_takes_too_long(save_timeout); });
  saving_is_idle();
}

// Hands the last version to the members that take it. It goes through the
// coordinator, which stays until they have left.
void parameter_server_state::hand_over_last() {
  if (!model_.has_weights() || (!last_is_wanted_ && feed_.evaluators() == 0) ||
      !model_.is_readable())
    return;
  auto what = scheduler_.current();
  auto applied = requests_.applied();
  if (!shards_.any())
    return self_->send(coordinator_, ended_atom_v, what, applied,
                       model_.newest());
  if (!shards_.complete())
    return;
  ending_.collecting();
  shard_fetch parts;
  auto whole = model_.make_whole();
  parts.width = static_cast<uint64_t>(whole.element_size());
  parts.weights = whole;
  shards_.fetch(std::move(parts), [this, what, applied, whole] {
    self_->send(coordinator_, ended_atom_v, what, applied, to_payload(whole));
    ending_.collected();
  });
}

void parameter_server_state::give_up_saving() {
  checkpoints_.give_up();
  checkpoints_.close();
}

void parameter_server_state::saving_takes_too_long(double limit) {
  if (!ending_.begun() || ending_.is_saved())
    return;
  auto remedy = limit == parts_.settings.cluster.grace
                  ? " s (--grace): give it more time, and as much to whoever "
                    "stops this process; go on with --resume auto"
                  : " s: the disk takes no more; free it and go on with "
                    "--resume auto";
  ending_.fail("the last checkpoint was not written within " +
               config::print(limit) + remedy);
}

// A run that is told to stop may be killed while it waits for its last score.
void parameter_server_state::write_early_summary() {
  if (end_by_ && ending_.is_saved() && !ending_.is_closed())
    record(std::make_shared<note>(
      note{newest_.value, elapsed(), notes::early_summary{make_summary()}}));
}

// Waits a while for open contexts of modules: the workers have been told to
// stop, and close theirs.
void parameter_server_state::close_run() {
  constexpr auto pause = std::chrono::milliseconds(5);
  constexpr uint32_t most = 200;
  if (!parts_.modules || parts_.modules->contexts() == 0 ||
      contexts_waited_ == most)
    return write_summary();
  ++contexts_waited_;
  self_->run_delayed(pause, [this] { close_run(); });
}

void parameter_server_state::write_summary() {
  feed_.close();
  auto summary = make_summary();
  tell(inputs::ended{summary.status, scheduler_.current(),
                     summary.weights_sha256, summary.state_sha256},
       {});
  summary.status = ending_.status(); // Writing the log may have failed.
  auto last = std::make_shared<note>();
  last->step = scheduler_.current().value;
  last->time = elapsed();
  last->what = notes::finished{std::move(summary), ending_.line()};
  auto limit = finish_timeout;
  if (end_by_) // It has at least the time that is kept for it.
    limit = std::clamp(*end_by_ - elapsed() - 1, 1.0, limit);
  self_
    ->request(parts_.recorder, to_timespan(limit), finish_atom_v,
              note_ptr{std::move(last)})
    .then([this] { leave_run(); },
          [this, limit](const caf::error& err) {
            ending_.fail_late(
              err == caf::sec::request_timeout
                ? "the run directory took no lines for " +
                    config::print(std::round(limit)) +
                    " s, and summary.json is not written: the disk takes no "
                    "more; free it and go on with --resume auto"
                : text_of(err));
            leave_run();
          });
}

void parameter_server_state::leave_run() {
  auto status = exit_status::done;
  if (ending_.has_failed() || !ending_.line().empty())
    status = exit_status::failed;
  else if (ending_.status() == "stopped")
    status = exit_status::try_again;
  run_end how{static_cast<uint8_t>(status), ending_.line()};
  if (status != exit_status::done && !next_.all().empty()) {
    how.next = next_.all();
    how.without_nccl = next_.without_nccl();
    how.line = next_.line();
  }
  if (auto found = final_score())
    how.accuracy =
      found->value_of(config::native_metrics::accuracy).value_or(how.accuracy);
  self_->send(coordinator_, ended_atom_v, how);
  shards_.stop(how);
  self_->send_exit(parts_.writer, caf::exit_reason::user_shutdown);
  self_->send_exit(parts_.recorder, caf::exit_reason::user_shutdown);
  self_->quit();
}

// -- descriptions of the run --------------------------------------------------

recording::run_times parameter_server_state::times() const {
  recording::run_times out;
  out.elapsed_seconds = elapsed();
  out.wall_seconds = before_.wall_seconds + wall_.elapsed();
  if (!parts_.began)
    return out;
  out.virtual_seconds = before_.virtual_seconds.value_or(0);
  if (auto start = parts_.began(); start && last_update_ > *start)
    *out.virtual_seconds +=
      std::chrono::duration<double>(last_update_ - *start).count();
  return out;
}

std::optional<std::string> parameter_server_state::final_state_sha256() const
  try {
  if (shards_.any())
    return state_sha256_;
  snapshot now;
  model_.save(now);
  return state_sha256(now);
} catch (const run_error&) { // A GPU that has failed.
  return std::nullopt;
}

std::optional<score> parameter_server_state::final_score() const {
  const auto& found = metrics_->last_score();
  return found && found->weights == scheduler_.current() ? found : std::nullopt;
}

recording::summary parameter_server_state::make_summary() const {
  recording::summary out;
  const auto& settings = parts_.settings;
  metrics_->statistics().fill(out, times());
  out.status = ending_.status();
  out.policy = settings.policy.name;
  out.steps = scheduler_.current().value;
  out.epochs = metrics_->epochs();
  out.workers = settings.cluster.workers;
  out.shards = settings.cluster.shards;
  if (auto found = final_score())
    out.final_metrics = found->metrics;
  if (best_ && best_->step == metrics_->statistics().best_step())
    out.best_weights = models::best_weights_file;
  out.weights_sha256 =
    shards_.any() ? weights_sha256_ : model_.weights_sha256();
  out.state_sha256 = final_state_sha256();
  out.seed = settings.training.seed;
  out.mode = config::print(settings.parallel.mode);
  out.local_steps = settings.training.local_steps.most;
  if (settings.parallel.mode == config::parallel_mode::pipeline)
    out.bubble_share = metrics_->statistics().bubble_share();
  if (parts_.modules)
    out.contexts_left = parts_.modules->contexts();
  out.sharding = config::print(settings.data.sharding);
  out.samples_left_out = scheduler_.ledger().left_out();
  out.samples_partly_applied = scheduler_.partly_applied();
  out.transport = transports_;
  if (auto bytes = traffic_->per_step();
      bytes && !config::may_have_modules(settings)) {
    out.bytes_sent_per_step = std::move(bytes->sent);
    out.bytes_received_per_step = std::move(bytes->received);
  }
  out.changes = parts_.description.changes;
  out.troupe_version = config::version();
  return out;
}

} // namespace troupe
