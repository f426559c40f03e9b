#include "actors/policies/sync.hpp"

#include "actors/cores/planted.hpp"

namespace troupe::policies {

sync::sync(const policy_spec&) {
  // nop
}

std::string_view sync::name() const {
  return known_as;
}

std::unique_ptr<policy> sync::clone() const {
  return std::make_unique<sync>(*this);
}

void sync::reset(version v) {
  round_.reset(v);
}

version sync::current() const {
  return round_.current();
}

decision sync::on_join(std::span<const worker_id> who) {
  decision out;
  round_.join(who);
  close_if_due(out);
  return out;
}

decision sync::on_leave(worker_id who) {
  decision out;
  round_.leave(who);
  if (!planted(bug::barrier_stays))
    close_if_due(out);
  return out;
}

decision sync::on_arrival(const arrival& what) {
  decision out;
  round_.arrive(what, out);
  close_if_due(out);
  return out;
}

decision sync::on_pull(worker_id who) {
  decision out;
  round_.pull(who, out);
  return out;
}

void sync::close_if_due(decision& out) {
  if (round_.computing() == 0)
    round_.close(out);
}

std::vector<worker_id> sync::waiting_for() const {
  return round_.waiting_for();
}

uint64_t sync::staleness_bound(uint32_t) const {
  return 0;
}

std::string sync::describe() const {
  return "sync " + round_.describe();
}

std::string sync::save() const {
  state_writer out{known_as};
  round_.save(out);
  return out.str();
}

bool sync::load(std::string_view text) {
  state_reader in{text};
  auto copy = round_;
  if (!in.name(known_as) || !copy.load(in) || !in.end())
    return false;
  round_ = std::move(copy);
  return true;
}

} // namespace troupe::policies
