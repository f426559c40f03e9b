// Prints which leases of a run were put into its weights, for tests in Python:
// "EPOCH LEASE INDEX..." a line, with the samples of the lease. Exits with 1,
// and says why, if a lease was not settled exactly once.
//
// Usage: applied_leases EVENT-LOG...
// One for each life of the server, in their order. Of each life, the updates up
// to the version from which the next one went on are in the weights.
//
// Usage: applied_leases --open EVENT-LOG
// Prints the same of the leases that were not applied when the event log ended:
// workers had them, or nobody has asked since they were given back.

#include "actors/log_files/event_log_file.hpp"
#include "data/sampling/permutation.hpp"
#include "tests/support/lease_account.hpp"

#include <cstdint>
#include <cstdio>
#include <exception>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace {

using namespace troupe;

data::epoch_order order_of(const proto::LogBegin& run) {
  for (const auto& one : run.description().settings())
    if (one.key() == "training.seed")
      return {std::stoull(one.value()), run.samples()};
  throw std::runtime_error{"the event log does not tell the seed"};
}

void print(const proto::LogLease& lease, data::epoch_order& order) {
  std::printf("%llu %llu", static_cast<unsigned long long>(lease.epoch()),
              static_cast<unsigned long long>(lease.id()));
  for (auto index :
       order.lease_indices(lease.epoch(), lease.first(), lease.count()))
    std::printf(" %lld", static_cast<long long>(index));
  std::printf("\n");
}

/// The last version of life `i` that is in the weights.
uint64_t last_version(const std::vector<std::string>& event_logs, size_t i) {
  if (i + 1 == event_logs.size())
    return UINT64_MAX;
  return recording::event_log_reader{event_logs[i + 1]}.begin().start_version();
}

void print_applied(const std::string& event_log, uint64_t last) {
  recording::event_log_reader from{event_log};
  auto order = order_of(from.begin());
  std::map<std::tuple<uint32_t, uint32_t, uint64_t>,
           std::vector<proto::LogLease>>
    held;
  for (proto::LogEvent event; from.next(event);) {
    if (event.has_arrived()) {
      const auto& what = event.arrived();
      auto& its = held[{what.worker(), what.life(), what.sequence()}];
      its.assign(what.also().begin(), what.also().end());
      its.push_back(what.lease());
    }
    for (const auto& step : event.decision().updates())
      for (const auto& id : step.gradients())
        for (const auto& lease :
             held.at({id.worker(), id.life(), id.sequence()}))
          if (step.makes() <= last)
            print(lease, order);
  }
}

/// Follows the leases of a life that are not applied.
class unapplied {
public:
  void follow(const proto::LogEvent& event) {
    if (event.has_arrived())
      arrive(event.arrived());
    else if (event.has_pulled())
      abandon(event.pulled());
    else if (event.has_left())
      lose(event.left().worker());
    const auto& decided = event.decision();
    for (const auto& step : decided.updates())
      for (const auto& id : step.gradients())
        held_.erase(id_of(id));
    for (const auto& release : decided.releases())
      for (const auto& lease : release.leases())
        hand_out(release.worker(), lease);
    for (const auto& id : decided.drops()) // After the releases.
      for (const auto& lease : held_[id_of(id)])
        give_back(lease);
    for (const auto& id : decided.drops())
      held_.erase(id_of(id));
  }

  /// Those that workers have, those of gradients that wait for a step, and
  /// those given back for which nobody has asked since. Not one that was passed
  /// over.
  std::vector<proto::LogLease> open() const {
    std::vector<proto::LogLease> out;
    for (const auto& [id, one] : lent_)
      out.push_back(one.second);
    for (const auto& [id, leases] : held_)
      out.insert(out.end(), leases.begin(), leases.end());
    for (const auto& [range, one] : free_)
      if (!passed_over_.contains(range))
        out.push_back(one);
    return out;
  }

private:
  using push = std::tuple<uint32_t, uint32_t, uint64_t>;
  using range = std::pair<uint64_t, uint64_t>;

  template <class Push>
  static push id_of(const Push& of) {
    return {of.worker(), of.life(), of.sequence()};
  }

  static range range_of(const proto::LogLease& lease) {
    return {lease.epoch(), lease.first()};
  }

  void give_back(const proto::LogLease& lease) {
    free_[range_of(lease)] = lease;
  }

  void give_back(uint64_t id) {
    if (auto found = lent_.extract(id))
      give_back(found.mapped().second);
  }

  void arrive(const proto::LogArrived& push) {
    auto& its = held_[id_of(push)];
    its.assign(push.also().begin(), push.also().end());
    its.push_back(push.lease());
    for (const auto& lease : its)
      lent_.erase(lease.id());
    if (push.refused().empty())
      return;
    for (const auto& lease : its)
      give_back(lease);
    held_.erase(id_of(push));
  }

  void abandon(const proto::LogPulled& pull) {
    give_back(pull.abandoned());
    for (auto id : pull.also())
      give_back(id);
  }

  void lose(uint32_t worker) {
    std::vector<uint64_t> its;
    for (const auto& [id, one] : lent_)
      if (one.first == worker)
        its.push_back(id);
    for (auto id : its)
      give_back(id);
  }

  /// What was given back goes first.
  void hand_out(uint32_t to, const proto::LogLease& lease) {
    lent_[lease.id()] = {to, lease};
    if (free_.erase(range_of(lease)) == 0)
      for (const auto& [range, one] : free_)
        passed_over_.insert(range);
    passed_over_.erase(range_of(lease));
  }

  std::map<uint64_t, std::pair<uint32_t, proto::LogLease>> lent_;
  std::map<push, std::vector<proto::LogLease>> held_;
  std::map<range, proto::LogLease> free_;
  std::set<range> passed_over_;
};

void print_open(const std::string& event_log) {
  recording::event_log_reader from{event_log};
  auto order = order_of(from.begin());
  unapplied all;
  for (proto::LogEvent event; from.next(event);)
    all.follow(event);
  for (const auto& one : all.open())
    print(one, order);
}

} // namespace

int main(int argc, char** argv) {
  try {
    if (argc == 3 && std::string_view{argv[1]} == "--open") {
      print_open(argv[2]);
      return 0;
    }
    const std::vector<std::string> event_logs{argv + 1, argv + argc};
    test::lease_account account;
    for (size_t i = 0; i < event_logs.size(); ++i) {
      auto last = last_version(event_logs, i);
      account.add(event_logs[i], last);
      print_applied(event_logs[i], last);
    }
    for (const auto& breach : account.breaches())
      std::fprintf(stderr, "%s\n", breach.c_str());
    return account.breaches().empty() ? 0 : 1;
  } catch (const std::exception& err) {
    std::fprintf(stderr, "%s\n", err.what());
    return 2;
  }
}
