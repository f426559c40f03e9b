// How the parameter server carries out what its conductor decided.

#include "actors/parameter_server.hpp"
#include "actors/restore.hpp"
#include "actors/tensor_payload.hpp"
#include "config/compression.hpp"

#include <cmath>
#include <memory>
#include <utility>

namespace troupe {

void parameter_server_state::carry_out(cores::orders what) {
  if (ending_)
    return;
  attempt([&] {
    std::vector<push_id> dropped;
    for (const auto& late : what.drop) {
      drop(late);
      dropped.push_back(late.id);
    }
    remotes_.drop(dropped);
    for (const auto& step : what.updates)
      make(step);
    finish(what);
  });
}

void parameter_server_state::make(const cores::update_order& step) {
  auto made = close(step);
  if (remotes_.any())
    remotes_.step(step.makes, ids_of(made), made.shares, made.lr);
  model_.apply(made.next, made.gradients, made.shares, made.lr, made.scale);
  publish(step, made);
}

void parameter_server_state::finish(const cores::orders& what) {
  if (what.stop)
    return begin_ending("completed", *what.stop);
  for (const auto& ready : what.release)
    release(ready);
  for (auto who : what.cancel)
    cancel(who);
}

auto parameter_server_state::close(const cores::update_order& step)
  -> closing_step {
  closing_step out;
  out.lr = lr_.at({epochs(), step.makes.value - 1}) * step.rate_factor;
  for (const auto& part : step.gradients) {
    settle(part.id);
    out.parts.push_back(std::move(held_.extract(part.id).mapped()));
    out.gradients.push_back(out.parts.back().gradient);
    const auto& header = out.parts.back().header;
    out.shares.push_back(static_cast<double>(header.samples) * part.weight);
    statistics_.applied(part.id.worker, header.samples, part.staleness,
                        times_of(header));
  }
  show_to_witness(step.makes, out.parts);
  out.scale = model_.scale_of(out.gradients, out.shares);
  out.next = model_.next_buffer();
  return out;
}

std::vector<push_id> parameter_server_state::ids_of(const closing_step& what) {
  std::vector<push_id> out;
  for (const auto& part : what.parts)
    out.push_back(part.header.id);
  return out;
}

void parameter_server_state::settle(const push_id& id) {
  if (members_.contains(id.worker) && members_.at(id.worker).life == id.life)
    members_.at(id.worker).settled = id.seq;
}

// The gradients are let go of before anybody is answered, so that their memory
// is free for the next.
void parameter_server_state::publish(const cores::update_order& step,
                                     closing_step& made) {
  model_.publish(step.makes, std::move(made.next));
  last_update_ = self_->clock().now();
  note_update(step, made);
  made = {};
  note_epochs();
  if (board_.updated(step.makes, epochs_noted_))
    show_due();
  if (step.makes.value % parts_.settings.checkpoint.checkpoint_freq == 0)
    checkpoint();
}

void parameter_server_state::show_to_witness(
  version makes, const std::vector<held_push>& parts) const {
  if (!parts_.watch)
    return;
  std::vector<push_header> headers;
  for (const auto& part : parts)
    headers.push_back(part.header);
  parts_.watch->applied(makes, headers);
}

void parameter_server_state::drop(const cores::dropped_push& what) {
  auto late = std::move(held_.extract(what.id).mapped());
  settle(what.id);
  tell(&witness::dropped, late.header);
  statistics_.dropped(what.id.worker, late.header.samples,
                      times_of(late.header));
  record(notes::dropped{what.id.worker, what.staleness, late.header.samples});
}

void parameter_server_state::release(const cores::release_order& what) {
  auto& who = members_.at(what.worker);
  auto promise = std::exchange(who.asks, std::nullopt);
  if (!promise)
    return;
  release_header header{conductor_.current(), parts_.life, what.leases};
  tell(&witness::released, what.worker, header);
  remotes_.release({what.worker, who.life, who.request}, header);
  promise->deliver(std::move(header), model_.newest());
}

void parameter_server_state::cancel(worker_id who) {
  record(notes::cancelled{who});
  self_->send(members_.at(who).handle, cancel_atom_v, conductor_.current());
}

// -- records ------------------------------------------------------------------

void parameter_server_state::note_update(const cores::update_order& step,
                                         const closing_step& made) {
  const auto& parts = made.parts;
  notes::update out;
  double loss = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto& header = parts[i].header;
    loss += header.loss * static_cast<double>(header.samples);
    out.samples += header.samples;
    out.gradients.push_back(
      {header.id.worker, step.gradients[i].staleness, header.samples});
  }
  out.loss = loss / static_cast<double>(out.samples);
  out.epoch = epochs();
  out.lr = made.lr;
  out.samples_per_second = samples_per_second();
  last_loss_ = out.loss;
  if (wall_.elapsed() >= progress_due_) {
    progress_due_ = wall_.elapsed() + recording::figures_interval;
    out.progress = progress();
  }
  record_at(step.makes, std::move(out));
}

void parameter_server_state::note_epochs() {
  for (auto done = conductor_.ledger().epochs_completed(); epochs_noted_ < done;
       ++epochs_noted_)
    record(notes::epoch{epochs_noted_});
}

double parameter_server_state::samples_per_second() const {
  return static_cast<double>(statistics_.samples_applied()) /
         std::max(elapsed(), 1e-9);
}

// Who is waited for is a walk over the cast: not for every update.
recording::progress_figures parameter_server_state::progress() const {
  recording::progress_figures out;
  out.step = conductor_.current().value;
  out.max_steps = parts_.settings.training.max_steps;
  out.epoch = epochs();
  if (std::isfinite(last_loss_))
    out.loss = last_loss_;
  out.samples_per_second = samples_per_second();
  if (last_score_)
    out.accuracy = last_score_->accuracy;
  if (last_score_ && !std::isnan(last_score_->accuracy_top5))
    out.top5 = last_score_->accuracy_top5;
  out.workers = static_cast<uint32_t>(conductor_.members());
  out.waiting_for = conductor_.policy().waiting_for();
  return out;
}

// -- versions for others ------------------------------------------------------

auto parameter_server_state::watch(version after) -> watch_result {
  if (ending_ && ending_->closed)
    return caf::make_error(errc::shutting_down, std::string{"the run is over"});
  auto promise = self_->make_response_promise<watch_header, payload>();
  watchers_.push_back({promise, after});
  show_due();
  return promise;
}

// The version that is due is at hand only while it is the newest; afterwards
// the due payload keeps it alive.
void parameter_server_state::show_due() {
  if (board_.next(due_version_) == conductor_.current()) {
    if (remotes_.any())
      return fetch_due();
    due_version_ = conductor_.current();
    due_weights_ = model_.newest();
  }
  serve_watchers();
}

// One at a time, but for the last: when that takes longer than training to the
// next, an evaluator skips versions, as when it is slow itself.
void parameter_server_state::fetch_due() {
  auto due = conductor_.current();
  auto wanted = audience_ > 0 || !watchers_.empty();
  if (!wanted || !remotes_.complete() || fetching_due_ == due ||
      (fetching_due_ && !ending_))
    return;
  fetching_due_ = due;
  auto whole = model_.make_whole();
  remotes_.fetch(whole, {}, due, [this, due, whole] {
    if (fetching_due_ == due)
      fetching_due_.reset();
    keep_whole(due, whole);
    if (due > due_version_) {
      due_version_ = due;
      due_weights_ = whole_;
    }
    serve_watchers();
  });
}

void parameter_server_state::keep_whole(version of, const at::Tensor& weights) {
  whole_version_ = of;
  whole_ = to_payload(weights);
}

void parameter_server_state::serve_watchers() {
  std::erase_if(watchers_, [this](watcher& who) {
    if (!(due_version_ > who.after))
      return false;
    who.asks.deliver(watch_header{due_version_, board_.is_last(due_version_)},
                     due_weights_);
    remember(due_version_, due_weights_);
    return true;
  });
}

// For the case that its score is the best. An evaluator that went away never
// scores what it has; a replay is told of scores that no one asks for.
void parameter_server_state::remember(version shown, const payload& weights) {
  if (!parts_.settings.checkpoint.keep_best || !model_.has_weights())
    return;
  shown_[shown] = weights;
  while (shown_.size() > audience_ + 1)
    shown_.erase(shown_.begin());
}

void parameter_server_state::keep_if_best(const score& found) {
  auto of = shown_.extract(found.weights);
  if (!of || statistics_.best_step() != found.weights.value ||
      (best_ && !(found.accuracy > best_->accuracy)) ||
      (ending_ && (ending_->closed || ending_->status == "failed")))
    return;
  auto what = std::make_shared<snapshot>();
  what->manifest.set_run_id(parts_.run_id);
  what->layout = model_.layout();
  what->weights = std::move(of.mapped());
  what->best = found;
  next_best_ = std::move(what);
  if (ending_)
    ending_->saved = false;
  write_next();
}

void parameter_server_state::take_score(const score& found) {
  board_.scored(found.weights);
  statistics_.evaluated(found.weights.value, found.loss, found.accuracy);
  last_score_ = found;
  record_at(found.weights, notes::evaluation{found});
  cores::orders decided;
  if (!ending_)
    decided.stop = conductor_.scored(found.accuracy);
  keep(inputs::scored{found}, decided);
  keep_if_best(found);
  if (ending_)
    note_last_score();
  else if (decided.stop)
    begin_ending("completed", *decided.stop);
}

bool parameter_server_state::checkpoint() {
  // Nothing is learnt and no epoch ends: there is nothing to go on from.
  if (!model_.has_weights() && parts_.samples == cores::endless)
    return false;
  if (last_checkpoint_ == conductor_.current() || !remotes_.complete())
    return false;
  last_checkpoint_ = conductor_.current();
  keep_left_out();
  collect([this](const snapshot_ptr& what) { save(what); });
  return true;
}

// What packing has left out of their gradients, workers keep themselves; the
// run does not end before they have.
void parameter_server_state::keep_left_out() {
  if (!config::parse_compression(parts_.settings.cluster.compression)
         .keeps_residual())
    return;
  auto done = [this] {
    --keeping_;
    note_saved();
  };
  for (auto& [rank, who] : members_) {
    ++keeping_;
    self_
      ->request(who.handle, to_timespan(patience_with_a_worker), write_atom_v,
                conductor_.current(), who.settled)
      .then(done, [done](const caf::error&) { done(); });
  }
}

// All shards have added what is theirs.
void parameter_server_state::save(snapshot_ptr what) {
  note_state(*what);
  if (ending_ && ending_->saved)
    return;
  next_snapshot_ = std::move(what);
  write_next();
}

void parameter_server_state::note_shards(const caf::error& why) {
  fail("a parameter server shard failed: " + text_of(why));
}

void parameter_server_state::note_written(const snapshot& what,
                                          const std::string& name) {
  if (what.best) {
    best_ = {what.best->weights.value, what.best->accuracy, what.best->loss};
    return;
  }
  version step{what.manifest.step()};
  tell(&witness::saved, step);
  record_at(step, notes::checkpoint{name});
}

// One snapshot is written at a time; while the writer is busy only the newest
// waits, so that a slow disk never holds training up.
void parameter_server_state::write_next() {
  auto& next = next_snapshot_ ? next_snapshot_ : next_best_;
  if (writing_ || !next)
    return;
  writing_ = true;
  auto what = std::exchange(next, nullptr);
  self_->request(parts_.writer, caf::infinite, write_atom_v, what)
    .then(
      [this, what](const std::string& name) {
        writing_ = false;
        note_written(*what, name);
        write_next();
        note_saved();
      },
      [this](const caf::error& err) {
        writing_ = false;
        fail_for_others(text_of(err));
      });
}

} // namespace troupe
