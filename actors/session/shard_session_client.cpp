#include "actors/session/shard_session_client.hpp"

#include "actors/recording/console.hpp"

#include <utility>

namespace troupe {

namespace {

using recording::say;

} // namespace

shard_session_client_state::shard_session_client_state(
  pointer self, shard_session_client_parts parts)
  : lead_seeker_state(self, parts, "lead shard"), parts_(std::move(parts)) {
  // nop
}

void shard_session_client_state::note_down(const caf::down_msg& down) {
  if (registrar_ && down.source == registrar_.address())
    lost();
}

void shard_session_client_state::connect() {
  attempts_.begin();
  if (auto here = parts_.address ? parts_.address() : std::nullopt) {
    parts_.hello.mutable_address()->set_host(here->host);
    parts_.hello.mutable_address()->set_port(here->port);
  }
  parts_.hello.set_seeks_lead(!places_.is_first());
  handshake_outcomes then;
  then.welcome = [this](const proto::Welcome& welcome,
                        const caf::strong_actor_ptr& inside) {
    enter(welcome, caf::actor_cast<shard_registrar_actor>(inside));
  };
  then.starts = [this](uint64_t work) {
    if (attempts_.starts(work, clock_.elapsed(self_)))
      note_lead();
  };
  then.elsewhere = [this](const proto::Welcome& run) {
    go_elsewhere(run);
  };
  shake_hands(places_.current(), parts_.hello, std::move(then));
}

void shard_session_client_state::enter(
  const proto::Welcome& welcome, const shard_registrar_actor& registrar) try {
  shard_ = parts_.make(welcome, registrar, session_client_actor{self_});
  attempts_.asks(self_, caf::actor_cast<caf::strong_actor_ptr>(registrar));
  // The registrar may read this shard's state first, so there is no time limit;
  // a lead that is lost meanwhile is noticed.
  self_
    ->request(registrar, caf::infinite, register_atom_v, parts_.rank,
              shard_->where.host, shard_->where.port, shard_->handle)
    .then(attempts_.in_this_one([this, welcome, registrar] {
      attempts_.answered(self_);
      enlist(welcome, registrar);
    }),
          attempts_.in_this_one([this](const caf::error& why) {
            attempts_.answered(self_);
            if (why == errc::settings_conflict)
              return refused(why);
            drop_links();
            retry(text_of(why));
          }));
} catch (const failure& err) {
  end_for(err);
}

// Nodes that know each other go on together when the lead is lost.
void shard_session_client_state::enlist(
  const proto::Welcome& welcome, const shard_registrar_actor& registrar) {
  attempts_.succeeded();
  note_lead();
  registrar_ = registrar;
  self_->monitor(registrar);
  say("connected    to " + address() + " as parameter server shard " +
      to_string(parts_.rank));
  if (!parts_.complete)
    return;
  self_->request(registrar, caf::infinite, shards_atom_v)
    .then(attempts_.in_this_one(
            [this, welcome](const std::vector<config::address>& all) {
              note_all(welcome, all);
            }),
          [](const caf::error&) {
            // The registrar is lost, which is noticed anyway.
          });
}

void shard_session_client_state::note_all(
  proto::Welcome welcome, const std::vector<config::address>& all) try {
  for (const auto& one : all) {
    auto* shard = welcome.add_shards();
    shard->set_host(one.host);
    shard->set_port(one.port);
  }
  parts_.complete(welcome, places_.current());
} catch (const failure& err) {
  end_for(err);
}

void shard_session_client_state::go_elsewhere(const proto::Welcome& run) try {
  end(parts_.elsewhere(run));
} catch (const failure& err) {
  end_for(err);
}

// -- losing the place ---------------------------------------------------------

// The run cannot go on without this shard: the lead ends it, with a checkpoint.
void shard_session_client_state::stop() {
  if (!registrar_ || std::exchange(stops_, true))
    return end({static_cast<uint8_t>(exit_status::try_again), {}});
  self_->send(registrar_, leave_atom_v, parts_.rank);
}

// A life that has failed is not the end of the run. Its lead may be known to be
// lost before the shard says this.
void shard_session_client_state::note_end(const run_end& how) {
  if (!parts_.waits_after_failure || !how.failed() || stops_)
    return end(how);
  say("waiting      for the lead shard at " + address() +
      " to start again; it has failed: " + how.line);
  if (!registrar_)
    return;
  self_->demonitor(registrar_);
  lost();
}

// The shard may not have come to the lead's last message yet, which says how
// the run has ended.
void shard_session_client_state::lost() {
  registrar_ = shard_registrar_actor{};
  if (stops_)
    return end({static_cast<uint8_t>(exit_status::try_again), {}});
  lost_at_ = clock_.elapsed(self_);
  self_->run_delayed(to_timespan(for_last_words), attempts_.in_this_one([this] {
    drop_links();
    retry(connection_lost);
  }));
}

void shard_session_client_state::drop_links() {
  if (registrar_)
    self_->demonitor(registrar_);
  registrar_ = shard_registrar_actor{};
  if (!shard_)
    return;
  shard_->close();
  self_->send_exit(shard_->handle, caf::exit_reason::user_shutdown);
  shard_.reset();
}

// A lead that has only lost this node, and lives, refuses it within
// `for_its_return`; else it counts as dead.
void shard_session_client_state::retry(const std::string& why) try {
  auto now = clock_.elapsed(self_);
  auto delay = attempts_.failed(now);
  auto is_dead = !delay || (lost_at_ && now - *lost_at_ > for_its_return);
  if (is_dead && waits_for_lock(why))
    return;
  if (is_dead && parts_.without_lead)
    if (auto how = parts_.without_lead(lost_at_ ? connection_lost : why))
      return end(*how);
  look_for_lead();
  wait_for_lead(delay, parts_.begins_anew ? time_to_begin_anew : 0, why);
} catch (const failure& err) {
  end_for(err);
}

// The holder of the lock lives, or its file server does not know yet that it is
// dead. Nobody else may lead meanwhile, since a holder that wakes is the lead
// again. Or the holder leads a later life, begun by a node that has waited less
// long for the lead of this one. So all places are asked in turn.
bool shard_session_client_state::waits_for_lock(const std::string& why) {
  constexpr double between_looks = 0.5; // s
  auto holder = parts_.holder_of_lock ? parts_.holder_of_lock() : std::nullopt;
  auto now = clock_.elapsed(self_);
  auto lead = config::to_string(config::address{parts_.host, parts_.port});
  if (!holder) {
    locked_since_.reset();
    return false;
  }
  if (locked_since_ && now - *locked_since_ > parts_.patience_with_lock) {
    end({1, "the lead shard at " + lead + " is lost (" + why + "), and " +
              *holder +
              " still holds the lock of the run: end it, and start the run "
              "again with --resume auto"});
    return true;
  }
  if (!locked_since_)
    say("waiting      for the lead shard at " + lead + " (" + why +
        "), or for the lock of the run, which " + *holder + " holds: for " +
        std::to_string(static_cast<int>(parts_.patience_with_lock)) +
        " s at most");
  if (!locked_since_ && parts_.others) {
    places_ = lead_places{{parts_.host, parts_.port}};
    places_.found(parts_.others());
  }
  locked_since_ = locked_since_.value_or(now);
  auto wait = places_.next() ? 0 : between_looks; // All places, then a while.
  connect_after(wait);
  return true;
}

// The lead is there, or goes on with its start.
void shard_session_client_state::note_lead() {
  lost_at_.reset();
  locked_since_.reset();
}

void shard_session_client_state::end(const run_end& how) {
  attempts_.end();
  drop_links();
  quit(how);
}

} // namespace troupe
