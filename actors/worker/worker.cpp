#include "actors/worker/worker.hpp"

#include "actors/recording/console.hpp"
#include "actors/runtime/unexpected.hpp"
#include "config/text/failure.hpp"
#include "config/text/one_line.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

namespace {

constexpr double patience_with_session = 5; // s

} // namespace

worker_state::worker_state(pointer self, worker_parts parts)
  : self_(self), parts_(std::move(parts)), asked_for_weights_(self),
    ready_since_(self) {
  on_unexpected(self_, [this](const std::string& line) {
    self_->send(parts_.session, ended_atom_v, run_end{1, line});
  });
}

worker_actor::behavior_type worker_state::make_behavior() {
  return {
    [this](attach_atom, const parameter_server_actor& link,
           const registration& as, const gradient_way& way) {
      attach({link, as, way});
    },
    [this](detach_atom) { detach(); },
    [this](cancel_atom, version before) { cancel(before); },
    [this](write_atom, version at, sequence settled) {
      return write(at, settled);
    },
    [this](leave_atom) { return finish_before_leaving(); },
    [this](ping_atom) { return progress_->load(); },
    [this](report_atom) { return parts_.stacks ? parts_.stacks() : ""; },
    [this](stop_atom, const run_end& how) { stop(how); },
  };
}

// -- the role -----------------------------------------------------------------

void worker_state::attach(role next) {
  detach();
  if (stopped_)
    return;
  role_ = std::move(next);
  pull();
}

// Leases and weights belong to a role: the server gives the leases of a lost
// member to others.
void worker_state::detach() {
  ++roles_;
  if (round_)
    give_up();
  if (leaving_ && leaving_->pending()) // What is under way is of no use now.
    leaving_->deliver(role_ ? role_->answered : sequence{0});
  role_.reset();
  if (round_ && !round_->computes)
    round_.reset();
  work_.clear();
  weights_ = {};
  statistics_ = {};
  has_weights_ = false;
}

void worker_state::cancel(version before) {
  if (!round_)
    return;
  if (!round_->weights && has_weights_ && weights_version_ < before)
    take_up_weights(); // They are too old to be merged.
  if (!round_->weights || *round_->weights >= before)
    return;
  give_up();
  if (!round_->computes)
    abandon(*std::exchange(round_, std::nullopt));
}

// A compute actor that is busy checks the flag; one that only waits for the
// virtual clock reads its mailbox.
void worker_state::give_up() {
  round_->cancel->store(true);
  self_->send(parts_.compute, cancel_atom_v);
}

// What was begun is given back, so that others may have it.
void worker_state::abandon(const round& given_up) {
  if (!leaving_)
    pull(given_up.from);
}

caf::result<void> worker_state::write(version at, sequence settled) {
  if (!role_)
    return caf::unit;
  const auto& as = role_->as;
  push_id after{as.worker, as.life, settled};
  if (parts_.inner)
    try {
      parts_.inner->write(at, after);
    } catch (const failure& why) {
      recording::say("optimizer    is not kept: " + one_line(why));
    }
  return self_->delegate(parts_.session, write_atom_v, at, after);
}

caf::result<sequence> worker_state::finish_before_leaving() {
  leaving_ = self_->make_response_promise<sequence>();
  auto asks = *leaving_;
  if (round_ && !round_->weights)
    undo_early(); // Its leases go to others.
  else if (round_ && !round_->computes)
    compute({}, true);
  look_if_finished();
  return asks;
}

void worker_state::look_if_finished() {
  auto under_way = round_ || (role_ && role_->answered != role_->last);
  if (!leaving_ || !leaving_->pending() || under_way)
    return;
  if (role_ && parts_.inner)
    try {
      parts_.inner->hand_over(
        {role_->as.worker, role_->as.life, role_->answered});
    } catch (const failure& why) {
      recording::say("optimizer    is not handed over: " + one_line(why));
    }
  leaving_->deliver(role_ ? role_->answered : sequence{0});
}

// The worker keeps its place until it has the weights that the run ends with.
void worker_state::stop(const run_end& how) {
  if (std::exchange(stopped_, true))
    return;
  if (role_)
    parts_.last.gradient = {role_->as.worker, role_->as.life, role_->last};
  detach();
  hand_over_last(self_, parts_.last, parts_.session, how,
                 [this](const run_end& told) { leave(told); });
}

void worker_state::leave(const run_end& how) {
  detach();
  if (how.failed())
    leave_when_told(how);
  else
    self_->send(parts_.session, ended_atom_v, how);
  self_->send(parts_.compute, ended_atom_v, how);
  self_->send_exit(parts_.loader, caf::exit_reason::user_shutdown);
  if (!how.failed())
    self_->quit();
}

// The coordinator is to hear of a failure from the session, before it notices
// that this actor has ended.
void worker_state::leave_when_told(const run_end& how) {
  stopped_ = true;
  self_
    ->request(parts_.session, to_timespan(patience_with_session), ended_atom_v,
              how)
    .then([this] { self_->quit(); },
          [this](const caf::error&) { self_->quit(); });
}

// -- weights ------------------------------------------------------------------

void worker_state::pull(std::vector<lease_id> abandoned) {
  asked_for_weights_ = run_clock{self_};
  role_->requests = role_->requests.next();
  const auto& as = role_->as;
  pull_header header{as.worker, as.life, as.server, lease_id{0},
                     role_->requests};
  if (!abandoned.empty()) {
    header.abandoned = abandoned.front();
    header.also.assign(abandoned.begin() + 1, abandoned.end());
  }
  self_->request(role_->link, caf::infinite, pull_atom_v, header)
    .then(in_this_role(
            [this](const release_header& header, const payload& weights) {
              take_weights(header, weights);
            }),
          in_this_role([this](const caf::error& why) { take_refusal(why); }));
}

void worker_state::take_weights(const release_header& header,
                                const payload& weights) {
  auto is_early = round_ && !round_->weights;
  if (!is_early || !round_->computes) {
    auto& since = is_early ? ready_since_ : asked_for_weights_;
    wait_seconds_ = since.elapsed(self_);
    ready_since_ = run_clock{self_};
  } else {
    wait_seconds_ = 0;
  }
  weights_ = weights;
  weights_version_ = header.weights;
  steps_ = header.steps;
  fragment_ = header.fragment;
  goes_on_ = header.goes_on;
  dropped_ = header.dropped;
  has_weights_ = true;
  if (parts_.inner)
    parts_.inner->begin(header.server, header.weights, role_->as.worker);
  for (const auto& what : header.leases)
    work_.push_back({what, nullptr});
  if (is_early && !goes_on_)
    undo_early();
  load();
  advance();
}

// An unusable gradient loses its lease. The session client notices a lost link
// by itself, and the end of the run is announced. After any other error this
// place is useless: the session client gets another one.
void worker_state::take_refusal(const caf::error& why) {
  if (why == errc::not_finite || why == errc::outlier ||
      why == errc::wrong_size || why == errc::duplicate ||
      why == errc::protocol_violation)
    pull();
  else if (why == errc::unknown_member || why == errc::stale_incarnation)
    self_->send(parts_.session, connect_atom_v);
  else if (why != errc::peer_lost && why != errc::shutting_down)
    look_for_place(why);
}

void worker_state::look_for_place(const caf::error& why) {
  if (++unknown_ < most_unknown)
    self_->send(parts_.session, connect_atom_v);
  else
    leave({1, "the parameter server refuses all requests of this worker: " +
                text_of(why)});
}

// -- work ---------------------------------------------------------------------

// A round of local steps may have many leases, whose batches would need much
// memory: then only the next ones are loaded. Whoever loads for a process of
// the user's passes all on.
void worker_state::load() {
  constexpr size_t ahead = 2;
  auto count = parts_.local_steps > 0 ? ahead : work_.size();
  for (size_t i = 0; i < std::min(count, work_.size()); ++i) {
    if (std::exchange(work_[i].is_asked_for, true))
      continue;
    self_->request(parts_.loader, caf::infinite, load_atom_v, work_[i].what)
      .then(in_this_role([this](const loaded_batch& loaded) {
              skipped_ += loaded.skipped;
              for (auto& next : work_)
                if (next.what.id == loaded.from.id)
                  next.batch = loaded.batch;
              advance();
            }),
            in_this_role([this](const caf::error& why) { fail(why); }));
  }
}

void worker_state::advance() {
  if (leaving_ || !may_step())
    return;
  if (round_ && !round_->weights && round_->steps == round_->early_most) {
    take_up_weights();
    if (is_last(*round_))
      return compute({}, true);
  }
  if (work_.empty() || !work_.front().batch)
    return;
  if (!round_)
    begin_round();
  auto work = std::move(work_.front());
  work_.pop_front();
  load();
  round_->from.push_back(work.what.id);
  round_->epoch = work.what.epoch;
  if (!round_->weights)
    round_->early.push_back(work);
  auto ends = round_->weights && is_last(*round_);
  compute(std::move(work), ends);
}

/// Whether nothing but a batch is missing for the next step.
bool worker_state::may_step() const {
  if (!round_)
    return has_weights_;
  if (round_->computes)
    return false;
  return round_->weights || round_->steps < round_->early_most || has_weights_;
}

void worker_state::begin_round() {
  round_.emplace();
  round_->goes_on = goes_on_;
  take_up_weights();
}

/// Begins a round before its weights have come. How many steps it makes until
/// then does not depend on when they come, so that a run can be repeated.
void worker_state::begin_early() {
  round next;
  auto of_same_epoch = [this](const assignment& one) {
    return one.what.epoch == work_.front().what.epoch;
  };
  auto end = std::ranges::find_if_not(work_, of_same_epoch);
  next.early_most = static_cast<uint32_t>(
    std::min<size_t>(end - work_.begin(), parts_.overlap_steps));
  if (next.early_most == 0)
    return;
  next.goes_on = true;
  next.before = weights_version_;
  round_ = std::move(next);
  advance();
}

/// The round goes on with the weights that have come.
void worker_state::take_up_weights() {
  round_->weights = weights_version_;
  round_->most =
    parts_.local_steps > 0 && steps_ > 0 ? steps_ : parts_.local_steps;
  round_->merges = round_->goes_on;
  round_->early_steps = static_cast<uint32_t>(round_->steps);
  round_->early.clear();
  round_->is_undone = false;
  has_weights_ = false;
}

/// Takes back the steps of a round that has no weights yet, whose leases are
/// computed again.
void worker_state::undo_early() {
  round_->is_undone = true;
  if (round_->computes)
    return give_up();
  auto undone = *std::exchange(round_, std::nullopt);
  work_.insert(work_.begin(), std::make_move_iterator(undone.early.begin()),
               std::make_move_iterator(undone.early.end()));
}

// A round ends early when the worker has no lease left, or none of this epoch:
// it never waits for those that others have.
bool worker_state::is_last(const round& of) const {
  return of.from.size() >= of.most || work_.empty() ||
         work_.front().what.epoch != of.epoch;
}

/// @param ends Whether the round ends with this step, or without one if `work`
/// is empty.
void worker_state::compute(assignment work, bool ends) {
  round_->data_seconds += ready_since_.elapsed(self_);
  round_->computes = true;
  auto begins = round_->steps == 0;
  auto merges = std::exchange(round_->merges, false);
  auto has_weights = merges || (begins && !round_->goes_on);
  compute_task task{work.what,
                    std::move(work.batch),
                    has_weights ? std::exchange(weights_, payload{})
                                : payload{},
                    statistics_,
                    round_->cancel,
                    role_->way,
                    round_->weights.value_or(round_->before.next()),
                    caf::actor_cast<caf::strong_actor_ptr>(role_->link),
                    replica_part{},
                    std::exchange(dropped_, false),
                    std::nullopt,
                    steps_,
                    progress_,
                    fragment_,
                    goes_on_};
  if (parts_.local_steps > 0)
    task.local = local_step{
      begins,
      ends,
      round_->steps,
      round_->weights ? taken_
                      : push_id{role_->as.worker, role_->as.life, role_->last},
      {role_->as.worker, role_->as.life, role_->last.next()},
      fragment_,
      round_->goes_on,
      merges};
  self_->request(parts_.compute, caf::infinite, compute_atom_v, std::move(task))
    .then([this, asked = roles_, ends](
            const gradient_report& report) { computed(asked, ends, report); },
          [this](const caf::error& why) { fail(why); });
}

void worker_state::computed(uint64_t asked, bool ends,
                            const gradient_report& report) {
  round_->computes = false;
  ready_since_ = run_clock{self_};
  if (asked != roles_) {
    round_.reset();
    advance();
  } else if (round_->is_undone) {
    undo_early();
    advance();
  } else if (report.cancelled) {
    abandon(*std::exchange(round_, std::nullopt));
  } else {
    round_->report.add(report);
    ++round_->steps;
    ++*progress_;
    auto late = round_->cancel->load();
    if (ends || parts_.local_steps == 0) {
      auto done = *std::exchange(round_, std::nullopt);
      push(parts_.local_steps > 0 ? done.report.mean() : report, done);
    } else if (late) {
      abandon(*std::exchange(round_, std::nullopt));
    } else if (leaving_) {
      compute({}, true);
    } else {
      advance();
    }
  }
  look_if_finished();
}

void worker_state::push(const gradient_report& report, const round& done) {
  auto before = std::exchange(statistics_, report.statistics);
  asked_for_weights_ = run_clock{self_};
  role_->last = role_->last.next();
  role_->requests = role_->requests.next();
  const auto& as = role_->as;
  push_header header;
  header.id = {as.worker, as.life, role_->last};
  header.server = as.server;
  header.computed_on = *done.weights;
  header.from = done.from.front();
  header.samples = report.samples;
  header.loss = report.loss;
  header.compute_seconds = report.seconds;
  header.wait_seconds = wait_seconds_ + report.waited;
  header.data_seconds = done.data_seconds;
  header.idle_seconds = report.idle;
  header.request = role_->requests;
  header.skipped = std::exchange(skipped_, 0) + report.skipped;
  header.also.assign(done.from.begin() + 1, done.from.end());
  header.also.insert(header.also.end(), report.also.begin(), report.also.end());
  header.metrics = report.metrics;
  header.inner_steps = report.inner_steps;
  header.early_steps = done.early_steps;
  std::erase_if(work_, [&report](const assignment& next) {
    return std::ranges::count(report.also, next.what.id) > 0;
  });
  self_
    ->request(role_->link, caf::infinite, push_atom_v, header, report.gradient)
    .then(
      in_this_role([this](const release_header& next, const payload& weights) {
        unknown_ = 0;
        role_->answered = role_->last;
        taken_ = {role_->as.worker, role_->as.life, role_->last};
        take_weights(next, weights);
        look_if_finished();
      }),
      in_this_role([this, before](const caf::error& why) {
        if (why == errc::duplicate) // It has arrived before.
          taken_ = {role_->as.worker, role_->as.life, role_->last};
        else
          statistics_ = before;
        role_->answered = role_->last;
        look_if_finished();
        if (!leaving_)
          take_refusal(why);
      }));
  if (parts_.overlap_steps > 0 && !leaving_)
    begin_early();
}

// The data or the device of this worker is unusable: it leaves, and the others
// continue.
void worker_state::fail(const caf::error& why) {
  leave({1, text_of(why)});
}

} // namespace troupe
