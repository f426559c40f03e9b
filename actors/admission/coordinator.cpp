#include "actors/admission/coordinator.hpp"

#include "actors/recording/console.hpp"
#include "actors/recording/first_failure.hpp"
#include "actors/runtime/run_is_over.hpp"
#include "config/text/value.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

namespace {

/// Seconds that members have to disconnect before the server closes without
/// them.
constexpr double grace = 3;

/// Seconds that a worker has to say what its program is doing.
constexpr double patience_for_stacks = 1;

/// Ticks within the liveness timeout.
constexpr double ticks = 4;

} // namespace

coordinator_state::coordinator_state(pointer self, coordinator_parts parts)
  : self_(self), parts_(std::move(parts)), clock_(self),
    membership_(parts_.rules, 0), expected_(parts_.peers),
    pauses_(tick_interval()) {
  // nop
}

coordinator_actor::behavior_type coordinator_state::make_behavior() {
  self_->set_down_handler(
    [this](const caf::down_msg& down) { lost(down.source, down.reason); });
  self_->send(parts_.lead, coordinator_atom_v, coordinator_actor{self_});
  self_->delayed_send(self_, to_timespan(parts_.rules.join_timeout),
                      join_atom_v);
  tick();
  return {
    [this](register_atom, const registration_request& wish,
           const worker_actor& who) { return admit(wish, who); },
    [this](register_atom, const evaluator_actor& who) { return admit(who); },
    [this](leave_atom, worker_id who, life_number life,
           const std::string& reason) { expel(who, life, reason); },
    [this](detach_atom, const worker_actor& who) { pause(who); },
    [this](detach_atom, worker_id who, life_number life,
           const std::string& reason) { leave_hung(who, life, reason); },
    [this](join_atom) { start_if_due(); },
    [this](ending_atom) { stop_workers(); },
    [this](ended_atom, version number, const std::vector<push_id>& applied,
           const payload& weights) {
      take_last({number, applied, weights});
    },
    [this](fetch_atom) { return fetch_last(); },
    [this](credit_atom) { leave_by_ = now() + grace; },
    [this](ended_atom, const run_end& how) { close(how); },
    [this](tick_atom) { tick(); },
  };
}

// -- joining and leaving ------------------------------------------------------

// The server learns of a member before the member learns of its place, so that
// its first request comes from a known worker.
caf::result<registration>
coordinator_state::admit(const registration_request& wish,
                         const worker_actor& who) {
  if (ending_)
    return run_is_over();
  give_back_seat_of(who, std::string{recording::worker_changes_path});
  std::erase_if(paused_, [&](const paused_one& x) { return x.handle == who; });
  auto rank = wish.has_rank ? std::optional{wish.rank} : std::nullopt;
  if (!parts_.assignment)
    return admit_to(rank, wish, who);
  auto found = parts_.assignment->assign_part(
    rank, wish.data, [this](worker_id x) { return workers_.contains(x); });
  if (auto* no = std::get_if<cores::no_part>(&found))
    return caf::make_error(
      no->for_good ? errc::settings_conflict : errc::rank_taken, no->line);
  return admit_to(std::get<worker_id>(found), wish, who);
}

caf::error coordinator_state::refusal(cores::turned_away why,
                                      std::optional<worker_id> rank) const {
  if (why == cores::turned_away::too_many)
    return caf::make_error(errc::cluster_full,
                           "the run has its most workers, " +
                             std::to_string(parts_.rules.most) +
                             " (--max-workers): start this one again when one "
                             "has left, or the parameter server with more");
  return caf::make_error(
    errc::rank_taken,
    "no place for the worker: " + std::string{to_string(why)} +
      (rank ? " (rank " + to_string(*rank) + ")" : ""));
}

caf::result<registration>
coordinator_state::admit_to(std::optional<worker_id> rank,
                            const registration_request& wish,
                            const worker_actor& who) {
  auto place = membership_.admit(rank, now());
  if (auto* no = std::get_if<cores::turned_away>(&place))
    return refusal(*no, rank);
  auto seat = std::get<cores::seat>(place);
  self_->monitor(who);
  if (wish.takes_last)
    self_->send(parts_.lead, fetch_atom_v);
  workers_[seat.worker] = {who, seat.life, wish.awaits_score};
  expected_.came(seat.worker);
  ranks_[who.address()] = seat.worker;
  auto promise = self_->make_response_promise<registration>();
  self_
    ->request(parts_.lead, caf::infinite, enlist_atom_v, seat.worker, seat.life,
              wish, who)
    .then(
      [this, promise, seat]() mutable {
        promise.deliver(registration{seat.worker, seat.life, parts_.server});
        if (membership_.contains(seat.worker, seat.life))
          gathered_.push_back(seat.worker);
        start_if_due();
      },
      [this, promise](const caf::error&) mutable {
        auto only_life = parts_.outlived && !ending_;
        promise.deliver(only_life ? life_is_over() : run_is_over());
      });
  return promise;
}

// Only its link broke, not the connection, so nothing reported that it left.
std::optional<worker_id>
coordinator_state::give_back_seat_of(const worker_actor& who,
                                     const std::string& reason) {
  auto found = ranks_.find(who.address());
  if (found == ranks_.end())
    return std::nullopt;
  auto rank = found->second;
  leave(rank, workers_.at(rank).life, reason);
  return rank;
}

void coordinator_state::pause(const worker_actor& who) {
  if (!who || ending_)
    return;
  auto rank = give_back_seat_of(who, std::string{recording::worker_pauses});
  if (std::ranges::find(paused_, who, &paused_one::handle) != paused_.end())
    return;
  self_->monitor(who);
  paused_.push_back({who, rank});
}

life_number coordinator_state::admit(const evaluator_actor& who) {
  if (std::ranges::find(evaluators_, who) != evaluators_.end())
    return parts_.server;
  self_->monitor(who);
  evaluators_.push_back(who);
  self_->send(parts_.lead, evaluators_atom_v,
              static_cast<uint32_t>(evaluators_.size()));
  return parts_.server;
}

void coordinator_state::leave(worker_id who, life_number life,
                              const std::string& reason, cores::departure how) {
  if (!membership_.leave(who, life))
    return;
  const auto& handle = workers_.at(who).handle;
  self_->demonitor(handle);
  ranks_.erase(handle.address());
  workers_.erase(who);
  std::erase(gathered_, who);
  expected_.left(who, how);
  self_->send(parts_.lead, leave_atom_v, who, life, reason);
  look_for_members("worker " + to_string(who) + ", " +
                   recording::read_reason(reason).what);
}

// A program that is given up may be killed then, so its stacks come first.
void coordinator_state::leave_hung(worker_id who, life_number life,
                                   const std::string& reason) {
  if (!parts_.asks_for_stacks || !membership_.contains(who, life))
    return leave(who, life, reason);
  self_
    ->request(workers_.at(who).handle, to_timespan(patience_for_stacks),
              report_atom_v)
    .then(
      [this, who, life, reason](const std::string& stacks) {
        leave(who, life, stacks.empty() ? reason : reason + "\n" + stacks);
      },
      [this, who, life, reason](const caf::error&) {
        leave(who, life, reason);
      });
}

void coordinator_state::expel(worker_id who, life_number life,
                              const std::string& reason) {
  if (!membership_.contains(who, life))
    return fail_paused(who, life, reason);
  self_->send(workers_.at(who).handle, stop_atom_v,
              run_end{1, "worker " + to_string(who) + " " +
                           recording::read_reason(reason).what});
  leave(who, life, reason, cores::departure::failed);
}

// An error leaves a loop, and then ends the program.
void coordinator_state::fail_paused(worker_id who, life_number life,
                                    const std::string& reason) {
  auto one = std::ranges::find(paused_, std::optional{who}, &paused_one::rank);
  if (one == paused_.end() || workers_.contains(who))
    return;
  self_->demonitor(one->handle);
  paused_.erase(one);
  expected_.left(who, cores::departure::failed);
  self_->send(parts_.lead, leave_atom_v, who, life, reason);
  look_for_members("worker " + to_string(who) + ", " +
                   recording::read_reason(reason).what);
}

void coordinator_state::lost(const caf::actor_addr& who,
                             const caf::error& why) {
  auto ended = !why || why == caf::exit_reason::user_shutdown;
  auto is_paused = [&](const paused_one& x) {
    return x.handle.address() == who;
  };
  auto is_lost = [&](const auto& handle) {
    return handle.address() == who;
  };
  if (auto found = ranks_.find(who); found != ranks_.end()) {
    auto id = found->second;
    leave(id, workers_.at(id).life,
          ended ? std::string{recording::worker_ended} : "connection lost",
          ended ? cores::departure::ended : cores::departure::lost);
  } else if (auto one = std::ranges::find_if(paused_, is_paused);
             one != paused_.end()) {
    auto rank = one->rank;
    paused_.erase(one);
    if (rank && ended && !workers_.contains(*rank)) {
      expected_.left(*rank, cores::departure::ended);
      look_for_members("worker " + to_string(*rank) + ", " +
                       std::string{recording::worker_ended});
    }
  } else if (std::erase_if(evaluators_, is_lost) != 0) {
    self_->send(parts_.lead, evaluators_atom_v,
                static_cast<uint32_t>(evaluators_.size()));
  }
  leave_if_alone();
}

// Training starts only when the server knows all members, so that the first
// step has all of them.
void coordinator_state::start_if_due() {
  if (!membership_.started() &&
      (gathered_.size() < workers_.size() || !membership_.start_if_due(now())))
    return;
  if (!gathered_.empty())
    self_->send(parts_.lead, join_atom_v, std::exchange(gathered_, {}));
}

// A run without workers does nothing. Peers give it up when no worker may come
// any more; other runs wait for some time, since somebody may watch over the
// workers and start those anew that have failed.
void coordinator_state::look_for_members(const std::string& last) {
  auto beside_shards = parts_.peers > 0;
  if ((!beside_shards && !parts_.outlived) || !has_nobody())
    return;
  if (beside_shards)
    return give_up("all workers have ended (the last: " + last + ")");
  auto patience = config::print(parts_.rules.join_timeout);
  recording::say("waiting      for a worker, for " + patience +
                 " s: all have failed (the last: " + last + ")");
  self_->run_delayed(to_timespan(parts_.rules.join_timeout),
                     [this, last, patience, seen = membership_.change()] {
                       if (has_nobody() && membership_.change() == seen)
                         give_up("all workers have failed (the last: " + last +
                                 "), and none has come for " + patience + " s");
                     });
}

/// Whether no worker is there, and none is to be waited for.
bool coordinator_state::has_nobody() const {
  return workers_.empty() && expected_.none() && !ending_ && !ended_;
}

void coordinator_state::give_up(const std::string& why) {
  self_->send(parts_.lead, ended_atom_v,
              run_end{1, why + ": the run cannot go on; start it again with "
                               "--resume auto when the cause is removed"});
}

// -- liveness -----------------------------------------------------------------

// If this process itself was suspended, it has heard nobody: the answers of
// that time are still in its mailbox.
void coordinator_state::tick() {
  if (ending_ || parts_.liveness_timeout == 0)
    return;
  if (auto still = pauses_.tick(now()); still > 0)
    membership_.excuse(still, now());
  for (const auto& seat : membership_.silent(now(), parts_.liveness_timeout))
    leave(seat.worker, seat.life, "silent");
  ping();
  self_->delayed_send(self_, to_timespan(tick_interval()), tick_atom_v);
}

double coordinator_state::tick_interval() const {
  return parts_.liveness_timeout / ticks;
}

void coordinator_state::ping() {
  for (const auto& [id, who] : workers_)
    self_
      ->request(who.handle, to_timespan(parts_.liveness_timeout), ping_atom_v)
      .then([this, id = id,
             life = who.life](uint64_t) { membership_.heard(id, life, now()); },
            [](const caf::error&) {
              // If it does not answer, its silence is noticed anyway.
            });
}

// -- the end ------------------------------------------------------------------

void coordinator_state::stop_workers() {
  ending_ = true;
  for (const auto& [id, who] : workers_)
    if (!who.awaits_score)
      self_->send(who.handle, stop_atom_v, run_end{});
  for (const auto& who : paused_)
    self_->send(who.handle, stop_atom_v, run_end{});
}

void coordinator_state::take_last(last_one last) {
  last_ = std::move(last);
  for (auto& asks : std::exchange(fetching_, {}))
    asks.deliver(last_->what, last_->applied, last_->weights);
}

last_version coordinator_state::fetch_last() {
  if (last_)
    return {last_->what, last_->applied, last_->weights};
  if (ended_)
    return run_is_over();
  fetching_.push_back(
    self_->make_response_promise<version, std::vector<push_id>, payload>());
  return fetching_.back();
}

void coordinator_state::close(const run_end& how) {
  if (!ended_) {
    leave_by_ = now() + grace;
    for (auto& asks : std::exchange(fetching_, {}))
      asks.deliver(run_is_over());
  }
  if (!ended_ && parts_.outlived && how.failed()) {
    // Members notice by themselves, and wait for the next life.
    workers_.clear(), ranks_.clear(), evaluators_.clear(), paused_.clear();
  } else if (!ended_) {
    run_end told;
    told.accuracy = how.accuracy;
    if (told.next = how.next; !told.next.empty())
      told.line = how.line;
    for (const auto& [id, who] : workers_)
      if (who.awaits_score)
        self_->send(who.handle, stop_atom_v, told);
    if (how.next.empty())
      for (const auto& who : evaluators_)
        self_->send(who, stop_atom_v, told);
    else
      evaluators_.clear(); // They look for the next lead by themselves.
  }
  ended_ = how;
  end_grace();
}

// Members that still take the last weights have more time.
void coordinator_state::end_grace() {
  if (auto left = leave_by_ - now(); left > 0)
    self_->run_delayed(to_timespan(left), [this] { end_grace(); });
  else
    workers_.clear(), ranks_.clear(), evaluators_.clear(), paused_.clear();
  leave_if_alone();
}

void coordinator_state::leave_if_alone() {
  if (!ended_ || !workers_.empty() || !evaluators_.empty() || !paused_.empty())
    return;
  self_->send(parts_.supervisor, ended_atom_v, *ended_);
  self_->quit();
}

double coordinator_state::now() const {
  return clock_.elapsed(self_);
}

} // namespace troupe
