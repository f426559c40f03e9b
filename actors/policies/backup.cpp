#include "actors/policies/backup.hpp"

#include "actors/cores/planted.hpp"
#include "config/failure.hpp"

namespace troupe::policies {

backup::backup(const policy_spec& spec)
  : workers_(spec.workers), backups_(spec.backup_workers), late_(spec.late) {
  if (backups_ >= workers_)
    throw usage_error("policy backup: backup-workers must be less than workers"
                      " (" +
                      std::to_string(workers_) + "), is " +
                      std::to_string(backups_));
}

std::string_view backup::name() const {
  return known_as;
}

std::unique_ptr<policy> backup::clone() const {
  return std::make_unique<backup>(*this);
}

void backup::reset(version v) {
  round_.reset(v);
}

version backup::current() const {
  return round_.current();
}

decision backup::on_join(std::span<const worker_id> who) {
  decision out;
  round_.join(who);
  close_if_due(out);
  return out;
}

decision backup::on_leave(worker_id who) {
  decision out;
  round_.leave(who);
  if (!planted(bug::barrier_stays))
    close_if_due(out);
  return out;
}

decision backup::on_arrival(const arrival& what) {
  decision out;
  round_.arrive(what, out);
  close_if_due(out);
  return out;
}

decision backup::on_pull(worker_id who) {
  decision out;
  round_.pull(who, out);
  return out;
}

void backup::close_if_due(decision& out) {
  // min(N-b, live) with live = gradients + computing, written without the min.
  auto enough = round_.gradients() >= workers_ - backups_;
  if (!enough && round_.computing() > 0)
    return;
  auto closing = round_.current();
  round_.close(out);
  if (enough && late_ == late_rule::cancel)
    out.cancel = round_.computing_on(closing);
}

std::vector<worker_id> backup::waiting_for() const {
  return round_.waiting_for();
}

uint64_t backup::staleness_bound(uint32_t) const {
  return 0;
}

std::string backup::describe() const {
  return "backup(b=" + std::to_string(backups_) +
         (late_ == late_rule::cancel ? ",cancel) " : ",drop) ") +
         round_.describe();
}

std::string backup::save() const {
  state_writer out{known_as};
  out.number("n", workers_);
  out.number("b", backups_);
  out.number("late", static_cast<uint64_t>(late_));
  round_.save(out);
  return out.str();
}

bool backup::load(std::string_view text) {
  state_reader in{text};
  auto copy = round_;
  if (!in.name(known_as) || !in.same("n", workers_) ||
      !in.same("b", backups_) ||
      !in.same("late", static_cast<uint64_t>(late_)) || !copy.load(in) ||
      !in.end())
    return false;
  round_ = std::move(copy);
  return true;
}

} // namespace troupe::policies
