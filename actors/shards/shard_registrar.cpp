#include "actors/shards/shard_registrar.hpp"

#include "actors/runtime/run_clock.hpp"
#include "actors/shards/file_places.hpp"
#include "config/text/failure.hpp"
#include "config/text/one_line.hpp"
#include "config/values/address.hpp"
#include "models/engine/tensor_memory.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

namespace troupe {

namespace {

/// Between two pings, as a share of the liveness timeout.
constexpr double ping_share = 0.25;

/// A pause of this share of the liveness timeout may have cost connections.
constexpr double long_pause_share = 0.5;

} // namespace

// -- the actor ----------------------------------------------------------------

shard_registrar_state::shard_registrar_state(pointer self,
                                             shard_registrar_parts parts)
  : self_(self), parts_(std::move(parts)), clock_(self),
    arrivals_(parts_.patience, 0),
    pauses_(parts_.liveness_timeout * ping_share) {
  note_missing();
}

shard_registrar_actor::behavior_type shard_registrar_state::make_behavior() {
  self_->monitor(parts_.lead);
  self_->send(parts_.lead, shards_atom_v, shard_registrar_actor{self_},
              std::vector<remote_shard_actor>{}); // To be told of the end.
  self_->set_down_handler([this](const caf::down_msg& down) {
    if (!leaving_.empty())
      return left(down.source);
    if (down.source == parts_.lead.address())
      return stop({1, "the lead shard has died"});
    lost(down.source, down.reason ? text_of(down.reason) : "it has ended");
  });
  if (parts_.patience > 0)
    watch_arrivals();
  if (parts_.liveness_timeout > 0)
    ping();
  return {
    [this](register_atom, shard_id rank, const std::string& host, uint16_t port,
           const remote_shard_actor& who) {
      return take_in(rank, host, port, who);
    },
    [this](shards_atom) { return name_all(); },
    [this](begun_atom, shard_id rank) { ready(rank); },
    [this](chunk_atom, shard_id rank, const chunk& piece) { put(rank, piece); },
    [this](write_atom, shard_id rank, transfer_id id,
           const std::string& trouble) { note_written(rank, id, trouble); },
    [this](credit_atom, shard_id rank, transfer_id id, uint64_t received) {
      credit(rank, id, received);
    },
    [this](state_atom, const shard_fetch_ptr& wish) { return fetch(wish); },
    [this](leave_atom, shard_id) { self_->send(parts_.lead, stop_atom_v); },
    [this](refuse_atom, const std::string& why) { sum_failed(why); },
    [this](tick_atom) { ping(); },
    [this](stop_atom, const run_end& how) { stop(how); },
  };
}

// -- coming in ----------------------------------------------------------------

caf::result<void>
shard_registrar_state::take_in(shard_id rank, const std::string& host,
                               uint16_t port,
                               const remote_shard_actor& who) try {
  if (rank.value == 0 || rank.value > ranges().size() || shards_.contains(rank))
    return caf::make_error(errc::rank_taken, "there is a parameter server "
                                             "shard of rank " +
                                               to_string(rank) + " already");
  if (complete_) // One is lost, and this life is about to end.
    return caf::make_error(errc::shutting_down,
                           std::string{"the run is without one of its shards"});
  if (!parts_.leaves_host)
    config::require_loopback({host, port},
                             "parameter server shard " + to_string(rank));
  auto begins = parts_.beginnings.make(rank);
  self_->monitor(who);
  transfer_id id{rank.value};
  auto& in = shards_[rank];
  in.rank = rank;
  in.where = {host, port};
  in.handle = who;
  in.heard = clock_.elapsed(self_);
  arrivals_.progress(in.heard);
  self_->send(who, begin_atom_v,
              caf::actor_cast<caf::strong_actor_ptr>(parts_.lead), id,
              begins.state, begins.flat.shape());
  in.outgoing.begin(id, begins.flat, to(who));
  return caf::unit;
} catch (const usage_error& err) {
  return caf::make_error(errc::settings_conflict, one_line(err));
} catch (const std::exception& err) { // The checkpoint cannot be read any more.
  self_->send(parts_.lead, refuse_atom_v, one_line(err));
  return caf::make_error(errc::disk, one_line(err));
}

caf::result<std::vector<config::address>> shard_registrar_state::name_all() {
  if (auto all = parts_.roster->all())
    return *all;
  asks_.push_back(self_->make_response_promise<std::vector<config::address>>());
  return asks_.back();
}

// The sender of the current message, if it is the shard of that rank. Late
// messages of a lost shard must not count for its successor.
auto shard_registrar_state::speaker(shard_id rank) -> shard* {
  auto found = shards_.find(rank);
  const auto& from = self_->current_sender();
  auto is_he = found != shards_.end() && from &&
               found->second.handle.address() == from->address();
  if (!is_he)
    return nullptr;
  found->second.heard = clock_.elapsed(self_);
  return &found->second;
}

void shard_registrar_state::credit(shard_id rank, transfer_id id,
                                   uint64_t received) {
  auto* from = speaker(rank);
  if (from == nullptr)
    return;
  if (!from->outgoing.credit(id, received, to(from->handle)))
    return lost(from->handle.address(), "impossible credit");
  if (received > std::exchange(from->received, received))
    arrivals_.progress(from->heard);
}

void shard_registrar_state::note_missing() {
  std::vector<shard_id> missing;
  for (uint32_t k = 1; k <= ranges().size(); ++k)
    if (auto found = shards_.find(shard_id{k});
        found == shards_.end() || !found->second.ready)
      missing.push_back(shard_id{k});
  parts_.roster->wait_for(std::move(missing));
}

// Once all shards have their state, no more states are made: the loss of a
// shard after that ends the run. All addresses are told before anybody trains,
// so that each node knows the others.
void shard_registrar_state::ready(shard_id rank) {
  auto* from = speaker(rank);
  if (from == nullptr || complete_)
    return;
  from->ready = true;
  arrivals_.progress(from->heard);
  note_missing();
  auto all = shards_.size() == ranges().size() &&
             std::ranges::all_of(
               shards_, [](const auto& one) { return one.second.ready; });
  if (!all)
    return;
  complete_ = true;
  std::vector<remote_shard_actor> handles;
  std::vector<config::address> addresses;
  for (const auto& [_, one] : shards_) {
    handles.push_back(one.handle);
    addresses.push_back(one.where);
  }
  parts_.beginnings.make = {};
  models::give_back_kept_tensor_memory(); // The first weights were whole.
  self_->send(parts_.lead, shards_atom_v, shard_registrar_actor{self_},
              std::move(handles));
  for (auto& asks : std::exchange(asks_, {}))
    asks.deliver(addresses);
  parts_.roster->open(std::move(addresses));
}

// -- assembly of versions -----------------------------------------------------

caf::result<void> shard_registrar_state::fetch(const shard_fetch_ptr& fetch) {
  uint64_t bytes = 0;
  for (uint32_t k = 1; k <= ranges().size(); ++k)
    bytes += bytes_of(*fetch, shard_id{k});
  auto promise = self_->make_response_promise<void>();
  fetches_.emplace(fetch->transfer, open_fetch{fetch, promise, bytes});
  return promise;
}

uint64_t shard_registrar_state::bytes_of(const shard_fetch& fetch,
                                         shard_id rank) const {
  return ranges()[rank.value - 1].count * fetch.width * fetch.numbers();
}

// The pieces of one shard come in order, so that none is repeated and none is
// missing.
void shard_registrar_state::put(shard_id rank, const chunk& piece) {
  auto* from = speaker(rank);
  auto found = fetches_.find(piece.transfer);
  if (from == nullptr || found == fetches_.end())
    return;
  const auto& what = *found->second.what;
  auto& [next, wrote] = found->second.parts[rank];
  auto size = piece.bytes().size();
  auto all = wrote ? 0 : bytes_of(what, rank);
  if (piece.offset != next || size == 0 || size > all - next)
    return lost(from->handle.address(), "a piece is out of place");
  try {
    copy(what, rank, piece);
  } catch (const std::exception& err) {
    return fail(found, one_line(err));
  }
  next += size;
  self_->send(from->handle, credit_atom_v, piece.transfer, next);
  count_arrived(found, size);
}

void shard_registrar_state::note_written(shard_id rank, transfer_id id,
                                         const std::string& trouble) {
  auto* from = speaker(rank);
  auto found = fetches_.find(id);
  if (from == nullptr || found == fetches_.end())
    return;
  const auto& what = *found->second.what;
  auto& [sent, wrote] = found->second.parts[rank];
  if (!what.files || sent > 0 || std::exchange(wrote, true))
    return lost(from->handle.address(), "its state is there already");
  if (!trouble.empty())
    return fail(found, trouble);
  count_arrived(found, bytes_of(what, rank));
}

// Notes that so many more bytes have arrived.
void shard_registrar_state::count_arrived(fetch_iterator open, uint64_t bytes) {
  open->second.missing -= bytes;
  if (open->second.missing > 0)
    return;
  auto done = std::move(fetches_.extract(open).mapped());
  done.asks.deliver();
}

void shard_registrar_state::fail(fetch_iterator open, const std::string& why) {
  auto failed = std::move(fetches_.extract(open).mapped());
  failed.asks.deliver(caf::make_error(errc::disk, why));
}

// A piece may extend from one part into the next.
void shard_registrar_state::copy(const shard_fetch& to, shard_id rank,
                                 const chunk& piece) const {
  const auto& range = ranges()[rank.value - 1];
  auto part_bytes = range.count * to.width;
  auto bytes = piece.bytes();
  for (uint64_t at = 0; at < bytes.size();) {
    auto position = piece.offset + at;
    auto inside = position % part_bytes;
    auto n = std::min<uint64_t>(bytes.size() - at, part_bytes - inside);
    copy(to, position / part_bytes, range.first * to.width + inside,
         bytes.subspan(at, n));
    at += n;
  }
}

/// @param index 0: the weights; else a slot, or without files the average.
/// @param first Bytes of the parameters before these.
void shard_registrar_state::copy(const shard_fetch& to, uint64_t index,
                                 uint64_t first,
                                 std::span<const std::byte> bytes) {
  if (!to.files) {
    const auto& which = index == 0 ? to.weights : to.average;
    auto* all = static_cast<std::byte*>(which.mutable_data_ptr());
    std::memcpy(all + first, bytes.data(), bytes.size());
    return;
  }
  const auto& parts =
    index == 0 ? to.places.weights.parts : to.places.slots.parts;
  auto& file = index == 0 ? to.files->model : to.files->optimizer;
  auto which = std::span{parts};
  if (index > 0)
    which = which.subspan(index - 1, 1);
  put_range(file, which, to.width, first, bytes);
}

// -- losses and end -----------------------------------------------------------

void shard_registrar_state::lost(const caf::actor_addr& who,
                                 const std::string& why) {
  auto found = std::ranges::find_if(shards_, [&](const auto& one) {
    return one.second.handle.address() == who;
  });
  if (found == shards_.end())
    return;
  auto gone = std::move(shards_.extract(found).mapped());
  if (!complete_)
    return note_missing();
  if (parts_.exchange)
    parts_.exchange->end("another node is lost");
  auto line = "parameter server shard " + to_string(gone.rank) + " at " +
              config::to_string(gone.where) + " is lost (" + why + ")";
  if (parts_.goes_on)
    return go_on(line);
  if (stood_still()) {
    run_end how{1, line};
    how.next.push_back(shard_id{0}); // The lead alone is in this process.
    return self_->send(parts_.lead, ended_atom_v, how);
  }
  self_->send(parts_.lead, refuse_atom_v,
              line + "; start the parameter server again with --resume auto, "
                     "and the shards that have ended");
}

// Whether a shard is lost shows in a moment: then that is the reason.
void shard_registrar_state::sum_failed(const std::string& why) {
  constexpr double for_the_reason = 1; // s
  if (parts_.exchange)
    parts_.exchange->end("a sum has failed");
  self_->run_delayed(to_timespan(for_the_reason), [this, why] {
    if (shards_.size() < ranges().size())
      return;
    if (parts_.goes_on)
      return go_on(why, true);
    self_->send(parts_.lead, refuse_atom_v,
                why + "; start the nodes again with --resume auto, and with "
                      "--transport stream if that happens again");
  });
}

void shard_registrar_state::watch_arrivals() {
  auto now = clock_.elapsed(self_);
  if (complete_)
    return;
  if (stood_still())
    arrivals_.progress(now);
  if (arrivals_.over(now))
    return go_on(parts_.roster->missing() + " did not come");
  self_->run_delayed(to_timespan(arrivals_.left(now)),
                     [this] { watch_arrivals(); });
}

// The timer itself may be late to notice a pause, so its delay counts, too.
bool shard_registrar_state::stood_still() const {
  auto now = clock_.elapsed(self_);
  return parts_.liveness_timeout > 0 &&
         (now < excused_until_ ||
          pauses_.overdue(now) > parts_.liveness_timeout * long_pause_share);
}

// Waits for the news of others that died at the same time. When this process
// stood still, its connections say nothing about the others: all of them are
// expected, and the next life goes without those that do not come.
void shard_registrar_state::go_on(const std::string& why, bool without_nccl) {
  constexpr double for_others = 0.25; // s
  if (std::exchange(goes_on_, true))
    return;
  self_->run_delayed(to_timespan(for_others), [this, why, without_nccl] {
    run_end how{1, why};
    how.without_nccl = without_nccl;
    how.next.push_back(shard_id{0});
    for (uint32_t k = 1; k <= ranges().size(); ++k)
      if (auto found = shards_.find(shard_id{k});
          stood_still() || (found != shards_.end() && found->second.ready))
        how.next.push_back(shard_id{k});
    self_->send(parts_.lead, ended_atom_v, how);
  });
}

// Pieces of a state may lie before an answer, and are signs of life, too. The
// time in which this process stood still is no silence of others, since their
// answers are still in its mailbox.
void shard_registrar_state::ping() {
  auto now = clock_.elapsed(self_);
  if (auto still = pauses_.tick(now); still > 0) {
    if (still > parts_.liveness_timeout * long_pause_share)
      excused_until_ = now + parts_.liveness_timeout;
    for (auto& [_, one] : shards_)
      one.heard += still;
  }
  std::vector<caf::actor_addr> silent;
  for (const auto& [_, one] : shards_)
    if (now - one.heard > parts_.liveness_timeout)
      silent.push_back(one.handle.address());
  for (const auto& who : silent)
    lost(who, "it does not answer");
  for (const auto& [rank, one] : shards_)
    self_
      ->request(one.handle, to_timespan(parts_.liveness_timeout), ping_atom_v)
      .then(
        [this, rank = rank, who = one.handle.address()] { heard(rank, who); },
        [](const caf::error&) {
          // If it does not answer, its silence is noticed anyway.
        });
  self_->delayed_send(self_, to_timespan(pauses_.interval()), tick_atom_v);
}

void shard_registrar_state::heard(shard_id rank, const caf::actor_addr& who) {
  auto found = shards_.find(rank);
  if (found != shards_.end() && found->second.handle.address() == who)
    found->second.heard = clock_.elapsed(self_);
}

// Where the shards go on, all must hear of it before this process begins anew:
// messages that are on their way then may be lost with the connection.
void shard_registrar_state::stop(const run_end& how) {
  constexpr double most = 2; // s
  auto all = std::exchange(shards_, {});
  auto told = how;
  if (!parts_.goes_on)
    told.next.clear(); // The next life has only the lead: they wait for it.
  for (const auto& [_, one] : all) {
    self_->send(one.handle, stop_atom_v, told);
    if (!how.next.empty())
      leaving_.insert(one.handle.address());
  }
  if (leaving_.empty())
    return self_->quit();
  self_->run_delayed(to_timespan(most), [this] { self_->quit(); });
}

void shard_registrar_state::left(const caf::actor_addr& who) {
  leaving_.erase(who);
  if (leaving_.empty())
    self_->quit();
}

} // namespace troupe
