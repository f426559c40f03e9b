#include "apps/lab/simulation/invariant_checker.hpp"

#include "apps/lab/simulation/samples.hpp"
#include "messages/type_ids.hpp"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <utility>

namespace troupe::simulation {

namespace {

std::string text(const push_header& x) {
  return "gradient " + to_string(x.id) + " of version " +
         to_string(x.computed_on);
}

} // namespace

invariant_checker::invariant_checker(invariant_rules rules)
  : rules_(std::move(rules)), fragments_(rules_.fragments),
    facts_(&config::find_policy(rules_.policy.name)) {
  // nop
}

void invariant_checker::breached(const char* promise, const std::string& how) {
  if (breach_)
    return;
  char time[32];
  std::snprintf(time, sizeof time, "%.3f", rules_.now());
  breach_ = std::string{time} + " s: " + promise + ": " + how;
}

const std::optional<std::string>& invariant_checker::breach() {
  if (!breach_ && !ended_) {
    check_deadlock();
    check_progress();
  }
  return breach_;
}

// -- the server's events ------------------------------------------------------

// First the input, then the decisions, in the order in which they are carried
// out.
void invariant_checker::on_event(const event& entry) {
  auto was_paused = paused_;
  if (entry.decided.members)
    paused_ = entry.decided.members->paused;
  std::visit(
    overloaded{
      [this](const inputs::started& x) { began(x.server, x.from); },
      [this](const inputs::enlisted& x) {
        fragments_.begins_anew(x.who);
        enlisted(x.who, x.life);
      },
      [this, was_paused](const inputs::joined& x) {
        entered(x.who);
        if (was_paused)
          entering_.insert(entering_.end(), x.who.begin(), x.who.end());
      },
      [this](const inputs::left& x) {
        left(x.who, x.life);
        if (x.reason.starts_with("hangs"))
          hung(x.who);
      },
      [this](const inputs::pulled& x) {
        fragments_.begins_anew(x.header.worker);
        pulled(x.header.worker, x.header.leases());
      },
      [this](const inputs::arrived& x) {
        judged(x);
        if (x.refused != errc::none) {
          fragments_.begins_anew(x.header.id.worker);
          return refused(x.header, x.refused);
        }
        fragments_.accepted(x.header.id);
        held_[x.header.id] = x.header;
        accepted(x.header);
      },
      [this](const inputs::deadline_passed& x) { passed_deadline(x.who); },
      [this](const inputs::saved& x) { saved(x.what); },
      [this](const inputs::ending&) { ended(); },
      [](const auto&) {},
    },
    entry.what);
  if (!entry.decided.updates.empty() || !entry.decided.release.empty())
    require_enough();
  for (const auto& late : entry.decided.drop) {
    fragments_.dropped(late.id);
    dropped(take_held(late.id));
  }
  for (const auto& step : entry.decided.updates) {
    std::vector<push_header> parts;
    for (const auto& part : step.gradients)
      parts.push_back(take_held(part.id));
    applied(step.makes, parts);
  }
  if (const auto* now = std::get_if<inputs::policy_changed>(&entry.what)) {
    if (!held_.empty())
      breached("kept", "the policy changes, and " +
                         text(held_.begin()->second) + " is forgotten");
    follow(policies::read_spec(now->policy, rules_.policy.workers));
    ++counts_.fences;
  }
  if (entry.decided.stop)
    return;
  if (!paused_)
    set_clocks(std::exchange(entering_, {}));
  for (const auto& next : entry.decided.release) {
    released(next.worker, {entry.newest, server_, next.leases});
    if (auto wrong = fragments_.released(next.worker, next.turn))
      breached("fragments", "worker " + to_string(next.worker) + ' ' + *wrong);
  }
}

// The new policy takes all members over in one go.
void invariant_checker::follow(const policies::policy_spec& policy) {
  rules_.policy = policy;
  facts_ = &config::find_policy(policy.name);
  fence_ = version_;
  auto clock = slowest();
  for (auto& [who, one] : members_)
    one.clock = clock;
}

// If the gradient was decided on before, only its id is known.
push_header invariant_checker::take_held(const push_id& id) {
  push_header nothing;
  nothing.id = id;
  nothing.server = server_;
  auto found = held_.extract(id);
  return found ? found.mapped() : nothing;
}

// -- lives of the server ------------------------------------------------------

void invariant_checker::began(life_number server, const proto::Manifest* from) {
  version start{from ? from->step() : 0};
  if (from && server_ == life_number{0})
    take_over(*from);
  if (server <= server_)
    breached("lives", "the server begins life " + to_string(server) +
                        " after life " + to_string(server_));
  if (start > version_ || (durable_ && start < *durable_))
    breached("kept",
             "the server begins at version " + to_string(start) +
               "; it had reached " + to_string(version_) +
               (durable_ ? ", " + to_string(*durable_) + " is durable" : ""));
  if (start < version_)
    ++counts_.rolled_back;
  // After a restart a worker may join later than others.
  if (from || server_ > life_number{0})
    for (uint32_t part = 0; part < rules_.parts.size(); ++part)
      away_.insert(part);
  server_ = server;
  fence_ = start;
  roll_back(start);
  members_.clear();
  is_down_ = false;
  paused_ = false;
  entering_.clear();
  lives_.clear();
  leases_.clear();
  lost_.clear();
  for (const auto& [id, header] : held_)
    undecided_.insert({header.server, id});
  held_.clear();
  norms_.clear();
  newest_.clear();
  began_at_ = rules_.now();
  late_.clear();
  if (from) {
    recall_late(from->ledger());
    check_ledger(*from, "the checkpoint of the restart");
  }
}

// Trusts the ledger for what an earlier run has put into the weights.
void invariant_checker::take_over(const proto::Manifest& from) {
  version_ = version{from.step()};
  auto check_epochs = [&](const auto& epochs, uint64_t opened, uint32_t part) {
    std::map<uint64_t, uint64_t> ends;
    auto add = [&](uint64_t epoch, uint64_t first, uint64_t end) {
      if (end > first)
        commits_.push_back(
          {version_, {lease_id{0}, epoch, first, end - first, part}});
    };
    for (uint64_t epoch = 0; epoch < opened; ++epoch)
      ends[epoch] = 0;
    for (const auto& open : epochs)
      for (const auto& range : open.unsettled()) {
        auto& end = ends[open.number()];
        add(open.number(), end, range.first());
        end = range.first() + range.count();
      }
    for (auto [epoch, end] : ends)
      add(epoch, end, samples_of(part));
  };
  const auto& ledger = from.ledger();
  check_epochs(ledger.open_epochs(), ledger.epochs_opened(), 0);
  for (const auto& one : ledger.parts()) {
    check_epochs(one.open_epochs(), one.epochs_opened(), one.part());
    left_out_before_[one.part()] = one.left_out();
  }
}

void invariant_checker::roll_back(version to) {
  version_ = to;
  std::erase_if(commits_, [=](const commit& x) { return x.makes > to; });
  covered_.clear();
  samples_ = 0;
  for (const auto& one : commits_)
    cover(one.what);
}

void invariant_checker::ended() {
  ended_ = true;
}

void invariant_checker::saved(version number) {
  if (number > version_)
    breached("versions", "a checkpoint of version " + to_string(number) +
                           ", which is not made yet");
  durable_ = std::max(durable_.value_or(number), number);
}

// -- members ------------------------------------------------------------------

void invariant_checker::enlisted(worker_id who, life_number life) {
  if (members_.contains(who))
    breached("lives", "worker " + to_string(who) + " joins twice");
  if (life <= lives_[who])
    breached("lives", "worker " + to_string(who) + " returns as life " +
                        to_string(life) + " again");
  counts_.returns += lives_[who].value > 0;
  lives_[who] = life;
  members_[who] = {};
  members_[who].life = life;
}

void invariant_checker::entered(std::span<const worker_id> who) {
  auto clock = slowest();
  auto later = cluster() > 0;
  for (auto id : who) {
    if (later)
      away_.insert(id.value);
    auto found = members_.find(id);
    if (found == members_.end() || found->second.is_member)
      continue;
    found->second.is_member = true;
    found->second.clock = clock;
    ++entries_;
  }
}

void invariant_checker::left(worker_id who, life_number life) {
  auto found = members_.find(who);
  if (found == members_.end() || found->second.life != life)
    return breached("lives", "worker " + to_string(who) + " leaves in life " +
                               to_string(life) + ", which is not a member");
  members_.erase(found);
  std::erase(entering_, who);
  away_.insert(who.value);
  norms_.erase(who);
  free_leases(who);
}

// Those that have come in a pause begin where the slowest is when it is over,
// and all that was postponed is done.
void invariant_checker::set_clocks(std::span<const worker_id> who) {
  for (auto id : who)
    members_.at(id).is_member = false;
  auto clock = slowest();
  for (auto id : who) {
    members_.at(id).is_member = true;
    members_.at(id).clock = clock;
  }
}

void invariant_checker::require_enough() {
  if (cluster() < rules_.fewest)
    breached("members", "a step or an answer with " +
                          std::to_string(cluster()) + " workers, where " +
                          std::to_string(rules_.fewest) + " are needed");
}

// A worker that hangs comes back when its computation is over.
void invariant_checker::hung(worker_id who) {
  if (auto found = processes_.find(who); found != processes_.end())
    found->second.since = std::max(found->second.since, rules_.now());
  ++counts_.hung;
}

void invariant_checker::free_leases(worker_id who) {
  for (auto& [id, one] : leases_)
    if (one.now == state::out && !is_kept_by_other(one, who) &&
        one.worker == who)
      one.now = state::free, one.since = rules_.now();
  std::erase_if(lost_,
                [=](const lost_lease& one) { return std::get<1>(one) == who; });
}

void invariant_checker::passed_deadline(worker_id who) {
  for (auto& [id, one] : leases_)
    if (one.worker == who && one.now == state::out)
      one.is_late = true;
}

// A worker gives up a lease. If another worker has the lease, too, only that
// one has it from now on.
bool invariant_checker::is_kept_by_other(known_lease& which, worker_id who) {
  if (!which.other || (which.worker != who && which.other->first != who))
    return false;
  if (which.worker == who)
    std::tie(which.worker, which.life) = *which.other;
  which.other.reset();
  which.is_late = false;
  return true;
}

// The first gradient of a lease has come: the other worker's does not count.
void invariant_checker::win(known_lease& which, const push_header& header) {
  if (which.other) {
    std::pair first{which.worker, which.life};
    std::pair winner{header.id.worker, header.id.life};
    auto loser = winner == first ? *which.other : first;
    lost_.emplace(which.what.id, loser.first, loser.second);
    std::tie(which.worker, which.life) = winner;
    which.other.reset();
  }
  which.now = state::held;
}

// Where ranks have parts of the data, no other worker has these samples, so
// they are left out.
void invariant_checker::come_too_late(known_lease& which) {
  which.now = state::free;
  which.since = rules_.now();
  if (!rules_.parts.empty())
    add(which.what, late_);
}

uint64_t invariant_checker::slowest() const {
  auto result = std::numeric_limits<uint64_t>::max();
  for (const auto& [who, one] : members_)
    if (one.is_member)
      result = std::min(result, one.clock);
  return result == std::numeric_limits<uint64_t>::max() ? 0 : result;
}

size_t invariant_checker::cluster() const {
  return static_cast<size_t>(std::ranges::count_if(
    members_, [](const auto& entry) { return entry.second.is_member; }));
}

// -- gradients ----------------------------------------------------------------

void invariant_checker::pushed(const push_header& header) {
  sent_.insert({header.server, header.id});
}

void invariant_checker::accepted(const push_header& header) {
  push_key key{header.server, header.id};
  if (header.server != server_)
    return breached("lives", "the server takes " + text(header) +
                               ", meant for its life " +
                               to_string(header.server));
  auto who = members_.find(header.id.worker);
  if (who == members_.end() || who->second.life != header.id.life)
    return breached("lives", "the server takes " + text(header) +
                               ", which is of no member");
  if (!sent_.contains(key))
    return breached("once", text(header) + " was never sent");
  if (!accepted_.insert(key).second)
    return breached("once", text(header) + " is taken twice");
  who->second.waits = true;
  auto all = header.leases();
  if (has_lost_any(header))
    return; // It must be dropped.
  uint64_t samples = 0;
  for (auto id : all) {
    auto from = leases_.find(id);
    if (from == leases_.end() ||
        !from->second.is_of(header.id.worker, header.id.life) ||
        from->second.now != state::out)
      return breached("samples", text(header) + " is of a lease that its "
                                                "worker does not have");
    samples += from->second.what.count;
    win(from->second, header);
  }
  if (samples != header.samples)
    breached("samples", text(header) + " has other samples than its leases");
}

/// Whether another worker's gradient of one of its leases has come first.
bool invariant_checker::has_lost_any(const push_header& header) const {
  return std::ranges::any_of(header.leases(), [&](lease_id id) {
    return lost_.contains({id, header.id.worker, header.id.life});
  });
}

// Simulated machines make no unusable gradients, but some have larger norms.
void invariant_checker::refused(const push_header& header, errc why) {
  if (why != errc::outlier)
    return breached("sound", text(header) + " is refused as unusable");
  for (auto id : header.leases()) {
    auto from = leases_.find(id);
    auto is_theirs =
      from != leases_.end() && from->second.worker == header.id.worker;
    if (is_theirs && from->second.now == state::out &&
        !is_kept_by_other(from->second, header.id.worker))
      from->second.now = state::free, from->second.since = rules_.now();
  }
}

void invariant_checker::pulled(worker_id who,
                               std::span<const lease_id> abandoned) {
  for (auto id : abandoned) {
    auto found = leases_.find(id);
    if (found != leases_.end() && found->second.now == state::out &&
        !is_kept_by_other(found->second, who) && found->second.worker == who)
      come_too_late(found->second);
    std::erase_if(lost_, [=](const lost_lease& one) {
      return std::get<0>(one) == id && std::get<1>(one) == who;
    });
  }
  if (auto asks = members_.find(who); asks != members_.end())
    asks->second.waits = true;
}

void invariant_checker::applied(version makes,
                                std::span<const push_header> parts) {
  if (makes != version_.next())
    breached("versions", "version " + to_string(makes) + " follows version " +
                           to_string(version_));
  if (parts.empty())
    breached("versions", "version " + to_string(makes) + " of no gradient");
  for (const auto& part : parts)
    apply(makes, part);
  version_ = makes;
  last_update_ = rules_.now();
  ++counts_.updates;
}

void invariant_checker::apply(version makes, const push_header& part) {
  push_key key{part.server, part.id};
  if (!accepted_.contains(key) || !decided_.insert(key).second)
    return breached("once", text(part) + " is applied, but not for the first "
                                         "time or without having been taken");
  check_staleness(makes, part);
  for (auto id : part.leases()) {
    auto granted = leases_.find(id);
    if (granted == leases_.end() || has_lost_any(part))
      return breached("samples", text(part) + " is of no lease of its worker");
    auto from = granted->second.what;
    if (covered(from))
      breached("samples", text(from) + " are in the weights twice");
    cover(from);
    commits_.push_back({makes, from});
    leases_.erase(granted);
  }
  if (auto who = members_.find(part.id.worker);
      who != members_.end() && who->second.life == part.id.life)
    ++who->second.clock;
}

void invariant_checker::dropped(const push_header& header) {
  if (!decided_.insert({header.server, header.id}).second)
    return breached("once",
                    text(header) + " is dropped after it was decided on");
  for (auto id : header.leases()) {
    if (lost_.erase({id, header.id.worker, header.id.life}) > 0)
      continue;
    auto found = leases_.find(id);
    if (found != leases_.end() &&
        !is_kept_by_other(found->second, header.id.worker))
      come_too_late(found->second);
  }
}

void invariant_checker::acknowledged(const push_header& header,
                                     const release_header& answer) {
  // A policy may release a worker before it has decided on the gradient, which
  // is then in the weights later, or rolled back with the server.
  push_key key{header.server, header.id};
  if (!decided_.contains(key) && !undecided_.contains(key) &&
      !held_.contains(header.id))
    breached("kept", "the worker is told that " + text(header) +
                       " was taken; it is neither in the weights nor dropped");
  auto found = members_.find(header.id.worker);
  auto is_theirs = found != members_.end() &&
                   found->second.life == header.id.life &&
                   header.server == server_;
  if (is_theirs &&
      (answer.server != server_ || answer.weights != found->second.reads))
    breached("versions", "the answer to " + text(header) + " is version " +
                           to_string(answer.weights) + " instead of " +
                           to_string(found->second.reads.value_or(version{})));
  if (answer.weights < header.computed_on)
    breached("versions", "the answer to " + text(header) + " is version " +
                           to_string(answer.weights));
}

void invariant_checker::turned_away(const push_header&, const caf::error& why) {
  if (why == errc::duplicate)
    ++counts_.duplicates;
  else if (why == errc::stale_incarnation || why == errc::unknown_member)
    ++counts_.stale;
}

// -- the policy's bounds ------------------------------------------------------

// Counts the members during the computation; one that left and came back counts
// twice. Where each gradient makes a step at once, none is applied after its
// worker left. For a gradient that was held, the begin of its computation is
// not known any more: then all members that ever joined count.
void invariant_checker::check_staleness(version makes,
                                        const push_header& part) {
  if (part.computed_on >= makes)
    return breached("staleness",
                    text(part) + " makes version " + to_string(makes));
  auto staleness = makes.value - 1 - part.computed_on.value;
  const auto& bound_of = facts_->staleness;
  if (!bound_of || part.computed_on < fence_)
    return;
  const auto& policy = rules_.policy;
  auto present = entries_;
  if (auto who = members_.find(part.id.worker); who != members_.end())
    present = who->second.members_at_release + entries_ -
              who->second.entries_at_release;
  else if (rules_.fewest == 0 && // In a pause the gradient waits.
           facts_->gradients_per_step(policy.parameters, policy.workers) == 1)
    return breached("lives", text(part) + " is applied after its worker left");
  auto bound = bound_of(rules_.policy.parameters, present);
  if (staleness > bound)
    breached("staleness", text(part) + " is " + std::to_string(staleness) +
                            " updates old; at most " + std::to_string(bound) +
                            " are allowed");
}

void invariant_checker::check_clock(worker_id who) {
  const auto& bound = facts_->clocks_ahead;
  auto ahead = members_.at(who).clock - slowest();
  if (bound && ahead > bound(rules_.policy.parameters))
    breached("staleness", "worker " + to_string(who) + " goes on " +
                            std::to_string(ahead) +
                            " clocks ahead of the slowest");
}

void invariant_checker::released(worker_id who, const release_header& header) {
  auto found = members_.find(who);
  if (found == members_.end() || !found->second.is_member)
    return breached("lives", "worker " + to_string(who) +
                               " gets weights but is not in the cluster");
  if (header.weights != version_ || header.server != server_)
    breached("versions", "worker " + to_string(who) + " gets version " +
                           to_string(header.weights) + " instead of " +
                           to_string(version_));
  auto& member = found->second;
  member.reads = header.weights;
  member.waits = false;
  all_wait_since_.reset();
  member.members_at_release = cluster();
  member.entries_at_release = entries_;
  check_clock(who);
  for (const auto& next : header.leases) {
    if (auto same = leases_.find(next.id);
        same != leases_.end() && same->second.is_late &&
        same->second.now == state::out && !same->second.other &&
        same->second.worker != who && same->second.what == next) {
      same->second.other = {who, member.life};
      ++counts_.again;
      continue;
    }
    for (const auto& [id, other] : leases_)
      if (other.now != state::free && overlap(other.what, next))
        breached("samples", text(next) + " go to worker " + to_string(who) +
                              " while worker " + to_string(other.worker) +
                              " has them");
    if (!rules_.parts.empty() && next.part != who.value)
      breached("samples", text(next) + " go to worker " + to_string(who));
    if (covered(next))
      breached("samples", text(next) + " are given out again");
    known_lease given{next, who, member.life, state::out, 0, rules_.now()};
    leases_[next.id] = given;
    auto [newest, first] = newest_.try_emplace(next.part, given);
    const auto& last = newest->second.what;
    if (std::pair{next.epoch, next.first} > std::pair{last.epoch, last.first})
      newest->second = given;
  }
}

} // namespace troupe::simulation
