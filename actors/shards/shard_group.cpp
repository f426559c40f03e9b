#include "actors/shards/shard_group.hpp"

#include "actors/runtime/run_clock.hpp"
#include "actors/shards/optimizer_messages.hpp"

#include <caf/policy/select_all.hpp>

#include <memory>
#include <utility>

namespace troupe {

void shard_group::begin(shard_registrar_actor registrar,
                        std::vector<remote_shard_actor> shards) {
  registrar_ = std::move(registrar);
  shards_ = std::move(shards);
}

// -- requests of workers ------------------------------------------------------

bool shard_group::decided(const request_id& id) const {
  auto last = decided_.find(id.worker);
  return last != decided_.end() && id <= last->second;
}

void shard_group::decide(const request_id& id) {
  auto& last = decided_[id.worker];
  last = std::max(last, id);
}

// The entry of a request; replaces an earlier request, which the worker has
// given up. Null for a request that the worker has itself given up by sending a
// newer one.
auto shard_group::find(const request_id& id, const push_id& gradient)
  -> open_request* {
  auto found = open_.find(id.worker);
  if (found != open_.end() && found->second.id < id) {
    give_up(id.worker);
    found = open_.end();
  }
  if (found == open_.end())
    found =
      open_
        .emplace(id.worker, open_request{id, gradient, 0, errc::none, {}, {}})
        .first;
  return found->second.id == id ? &found->second : nullptr;
}

void shard_group::expect(const request_id& id, const push_id& gradient,
                         errc own, then_checked then) {
  auto* what = find(id, gradient);
  if (what == nullptr)
    return drop_part(gradient);
  what->gradient = gradient;
  what->refuse(own);
  what->then = std::move(then);
  look(*what);
}

void shard_group::note(const part_report& report) {
  auto* what =
    decided(report.request) ? nullptr : find(report.request, report.gradient);
  if (what == nullptr)
    return drop_part(report.gradient);
  ++what->reports;
  what->refuse(report.refused);
  for (double part : report.squares)
    what->squares.add(part);
  look(*what);
}

void shard_group::look(open_request& request) {
  if (!request.then || request.reports < shards_.size())
    return;
  auto done = std::move(open_.extract(request.id.worker).mapped());
  decide(done.id);
  done.then(done.refused, done.squares);
}

void shard_group::refuse(const request_id& id, const push_id& gradient) {
  if (!any())
    return;
  decide(id);
  if (auto found = open_.find(id.worker);
      found != open_.end() && found->second.id <= id)
    open_.erase(found);
  drop_part(gradient);
}

auto shard_group::forget(worker_id who) -> std::optional<open_request> {
  auto gone = open_.extract(who);
  if (!gone)
    return std::nullopt;
  auto out = std::move(gone.mapped());
  decide(out.id);
  drop_part(out.gradient);
  return out;
}

// One shard alone has refused its part of a push and told the worker, whose
// next request was faster than the shard's report. Only a wrong size is refused
// by one shard alone.
void shard_group::give_up(worker_id who) {
  auto gone = forget(who);
  if (gone && gone->gradient.seq.value > 0 && gone->then)
    gone->then(errc::wrong_size, gone->squares);
}

void shard_group::drop_part(const push_id& gradient) {
  if (gradient.seq.value > 0)
    drop({gradient});
}

template <class Answer, class Atom, class Then>
void shard_group::ask_all(Atom verb, const shard_step& of, Then then) {
  self_
    ->fan_out_request<caf::policy::select_all>(shards_, to_timespan(patience_),
                                               verb, of)
    .await([then = std::move(then)](
             std::vector<Answer> found) { then(std::move(found)); },
           [this](const caf::error& why) {
             self_->run_delayed(to_timespan(for_the_reason),
                                [this, why] { on_trouble_(why); });
           });
}

void shard_group::add_up(const shard_step& offered) {
  tell_all(sum_atom_v, offered);
}

void shard_group::sum_failed(const std::string& why) {
  self_->send(registrar_, refuse_atom_v, why);
}

void shard_group::squares(const shard_step& of,
                          std::function<void(const models::exact_sum&)> then) {
  ask_all<shard_squares>(norm_atom_v, of,
                         [then = std::move(then)](const auto& found) {
                           models::exact_sum sum;
                           for (const auto& one : found)
                             for (double part : one.parts)
                               sum.add(part);
                           then(sum);
                         });
}

void shard_group::measure(const shard_step& of, then_measured then) {
  ask_all<shard_measures>(measure_atom_v, of,
                          [then = std::move(then)](const auto& found) {
                            std::vector<models::parameter_squares> all;
                            for (const auto& one : found)
                              add(one, all);
                            then(all);
                          });
}

// -- decisions ----------------------------------------------------------------

void shard_group::drop(const std::vector<push_id>& which) {
  if (!any() || which.empty())
    return;
  tell_all(refuse_atom_v, which);
  if (exchange_)
    exchange_->drop(which);
}

void shard_group::step(const shard_step& order) {
  if (any())
    tell_all(order_atom_v, order);
}

void shard_group::release(const request_id& id, const release_header& header) {
  if (any())
    tell_all(release_atom_v, id, header);
}

void shard_group::leave(worker_id who, life_number life) {
  if (!any())
    return;
  forget(who);
  tell_all(leave_atom_v, who, life);
}

void shard_group::finish() {
  open_.clear();
  tell_all(ending_atom_v);
}

void shard_group::stop(const run_end& how) {
  if (registrar_)
    self_->send(registrar_, stop_atom_v, how);
}

// The registrar must know where the pieces go before a shard is asked for them.
void shard_group::fetch(shard_fetch fetch, std::function<void()> then) {
  fetches_ = fetches_.next();
  fetch.transfer = fetches_;
  auto places = fetch.places;
  self_
    ->request(registrar_, caf::infinite, state_atom_v,
              shard_fetch_ptr{std::make_shared<shard_fetch>(std::move(fetch))})
    .then(std::move(then), on_trouble_);
  tell_all(state_atom_v, fetches_, places);
}

} // namespace troupe
