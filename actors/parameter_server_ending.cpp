// How a run ends: workers are sent home, the last version is scored and saved,
// the summary is written, and the coordinator closes the house.

#include "actors/parameter_server.hpp"
#include "actors/restore.hpp"
#include "actors/tensor_payload.hpp"
#include "config/failure.hpp"
#include "config/value.hpp"
#include "config/version.hpp"

#include <cmath>
#include <utility>

namespace troupe {

void parameter_server_state::begin_ending(std::string status,
                                          std::string reason) {
  if (ending_)
    return;
  record(notes::stopping{reason, progress()});
  ending_ = ending{std::move(status), {}, false, false, false};
  send_workers_home();
  board_.finish(conductor_.current());
  show_due();
  // Saved already: then its digest alone is wanted.
  if (!checkpoint() && model_.has_weights() && remotes_.any() &&
      remotes_.complete())
    collect([this](const snapshot_ptr& what) {
      note_state(*what);
      note_saved();
    });
  if (audience_ == 0)
    ending_->scored = true;
  else
    self_->delayed_send(
      self_, to_timespan(parts_.settings.evaluation.eval_timeout), tick_atom_v);
  if (!ending_->closed)
    self_->run_delayed(to_timespan(parts_.save_timeout),
                       [this] { give_saving_up(); });
  note_last_score();
  note_saved();
}

// No checkpoint and no score: what was met may have spoilt them.
void parameter_server_state::fail(std::string line) {
  if (ending_ && ending_->closed)
    return;
  if (!ending_) {
    record(notes::stopping{line, progress()});
    ending_ = ending{};
    send_workers_home();
  }
  ending_->status = "failed";
  ending_->line = std::move(line);
  ending_->scored = true;
  ending_->saved = true;
  next_snapshot_ = nullptr;
  next_best_ = nullptr;
  close_if_done();
}

// Recorder or checkpoint writer could not write: an input like others.
void parameter_server_state::fail_for_others(const std::string& line) {
  if (!ending_ || !ending_->closed)
    keep(inputs::failed{line});
  fail(line);
}

// A run that was to leave a tape and does not has failed.
void parameter_server_state::lose_tape(const std::string& line) {
  tape_.end();
  fail(line);
  ending_->status = "failed";
  if (ending_->line.empty())
    ending_->line = line;
}

void parameter_server_state::send_workers_home() {
  tell(&witness::ended);
  for (auto& [who, state] : members_)
    if (auto asks = std::exchange(state.asks, std::nullopt))
      asks->deliver(
        caf::make_error(errc::shutting_down, std::string{"the run is over"}));
  answer_waiting();
  remotes_.finish();
  held_.clear();
  self_->send(coordinator_, ending_atom_v);
}

void parameter_server_state::note_last_score() {
  if (!board_.last_open())
    ending_->scored = true;
  close_if_done();
}

void parameter_server_state::give_score_up() {
  ending_->scored = true;
  close_if_done();
}

void parameter_server_state::note_saved() {
  if (!ending_ || saving_ > 0 || keeping_ > 0 || writing_ || next_snapshot_ ||
      next_best_)
    return;
  ending_->saved = true;
  close_if_done();
}

void parameter_server_state::give_saving_up() {
  if (!ending_->saved)
    fail("the last checkpoint was not written within " +
         config::print(parts_.save_timeout) +
         " s: the disk takes no more; free it and go on with --resume auto");
}

void parameter_server_state::close_if_done() {
  if (!ending_->scored || !ending_->saved || ending_->closed)
    return;
  ending_->closed = true;
  for (auto& who : watchers_)
    who.asks.deliver(
      caf::make_error(errc::shutting_down, std::string{"the run is over"}));
  watchers_.clear();
  auto summary = make_summary();
  keep(inputs::ended{summary.status, conductor_.current(),
                     summary.weights_sha256, summary.state_sha256});
  summary.status = ending_->status; // The tape may be lost.
  auto last = std::make_shared<note>();
  last->step = conductor_.current().value;
  last->time = elapsed();
  last->what = notes::finished{std::move(summary), ending_->line};
  self_
    ->request(parts_.recorder, to_timespan(parts_.finish_timeout),
              finish_atom_v, note_ptr{std::move(last)})
    .then([this] { leave_stage(); },
          [this](const caf::error& err) {
            ending_->status = "failed";
            if (ending_->line.empty())
              ending_->line =
                err == caf::sec::request_timeout
                  ? "the run directory took no lines for " +
                      config::print(parts_.finish_timeout) +
                      " s, and summary.json is not written: the disk takes no "
                      "more; free it and go on with --resume auto"
                  : text_of(err);
            leave_stage();
          });
}

void parameter_server_state::leave_stage() {
  auto status = exit_status::done;
  if (ending_->status == "failed")
    status = exit_status::failed;
  else if (ending_->status == "stopped")
    status = exit_status::try_again;
  run_end how{static_cast<uint8_t>(status), ending_->line};
  self_->send(coordinator_, ended_atom_v, how);
  remotes_.send_home(how);
  self_->send_exit(parts_.writer, caf::exit_reason::user_shutdown);
  self_->send_exit(parts_.recorder, caf::exit_reason::user_shutdown);
  self_->quit();
}

// -- all that training has made -----------------------------------------------

// Shards go on with their mail meanwhile; what they add is of this version.
void parameter_server_state::collect(
  std::function<void(const snapshot_ptr&)> then) {
  auto out = std::make_shared<snapshot>();
  fill_manifest(parts_, conductor_, out->manifest);
  statistics_.save(*out->manifest.mutable_counters(), times());
  auto slots = model_.begin_save(*out);
  ++saving_;
  auto done = [this, out, then = std::move(then)] {
    --saving_;
    then(out);
  };
  model_.save(slots);
  if (!remotes_.any())
    return done();
  auto whole = model_.make_whole();
  out->weights = to_payload(whole);
  remotes_.fetch(whole, slots, conductor_.current(),
                 [this, whole, of = conductor_.current(), done] {
                   keep_whole(of, whole);
                   done();
                 });
}

void parameter_server_state::note_state(const snapshot& what) {
  if (ending_ && what.manifest.step() == conductor_.current().value)
    state_sha256_ = state_sha256(what);
}

std::optional<std::string> parameter_server_state::final_state_sha256() const {
  if (remotes_.any())
    return state_sha256_;
  snapshot now;
  model_.save(model_.begin_save(now));
  return state_sha256(now);
}

// -- the summary --------------------------------------------------------------

recording::summary parameter_server_state::make_summary() const {
  recording::summary out;
  const auto& settings = parts_.settings;
  statistics_.fill(out, times());
  out.status = ending_->status;
  out.policy = parts_.settings.policy.name;
  out.steps = conductor_.current().value;
  out.epochs = epochs();
  out.workers = settings.cluster.workers;
  out.shards = settings.cluster.shards;
  if (last_score_ && last_score_->weights == conductor_.current()) {
    out.final_loss = last_score_->loss;
    out.final_accuracy = last_score_->accuracy;
    if (!std::isnan(last_score_->accuracy_top5))
      out.final_accuracy_top5 = last_score_->accuracy_top5;
  }
  if (best_ && best_->step == statistics_.best_step())
    out.best_weights = models::best_weights_file;
  if (!remotes_.any())
    out.weights_sha256 = model_.weights_sha256();
  else if (whole_ && whole_version_ == conductor_.current())
    out.weights_sha256 = model_.sha256_of(whole_);
  out.state_sha256 = final_state_sha256();
  out.seed = settings.training.seed;
  out.sharding = config::print(settings.data.sharding);
  out.samples_left_out = conductor_.ledger().left_out();
  out.transport = transports_;
  out.changes = parts_.description.changes;
  out.troupe_version = config::version();
  return out;
}

} // namespace troupe
