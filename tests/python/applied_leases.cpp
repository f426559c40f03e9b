// Prints which leases of a run were put into its weights, for tests in Python:
// "EPOCH LEASE INDEX..." a line, with the samples of the lease. Exits with 1,
// and says why, if a lease was not settled exactly once.
//
// Usage: applied_leases EVENT-LOG...
// One for each life of the server, in their order. Of each life, the updates up
// to the version from which the next one went on are in the weights.
//
// Usage: applied_leases --open EVENT-LOG
// Prints the same of the leases that workers had when the event log ended.

#include "actors/log_files/event_log_file.hpp"
#include "data/sampling/permutation.hpp"
#include "tests/support/lease_account.hpp"

#include <cstdint>
#include <cstdio>
#include <exception>
#include <map>
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

void print_open(const std::string& event_log) {
  recording::event_log_reader from{event_log};
  auto order = order_of(from.begin());
  std::map<uint64_t, std::pair<uint32_t, proto::LogLease>> open;
  for (proto::LogEvent event; from.next(event);) {
    if (event.has_arrived()) {
      open.erase(event.arrived().lease().id());
      for (const auto& more : event.arrived().also())
        open.erase(more.id());
    } else if (event.has_pulled()) {
      open.erase(event.pulled().abandoned());
      for (auto id : event.pulled().also())
        open.erase(id);
    } else if (event.has_left()) {
      std::erase_if(open, [&](const auto& one) {
        return one.second.first == event.left().worker();
      });
    }
    for (const auto& release : event.decision().releases())
      for (const auto& lease : release.leases())
        open[lease.id()] = {release.worker(), lease};
  }
  for (const auto& [id, one] : open)
    print(one.second, order);
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
