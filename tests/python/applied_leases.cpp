// Prints which leases of a run were put into its weights, for tests in Python:
// "EPOCH LEASE" a line. Exits with 1, and says why, if a lease was not settled
// exactly once.
//
// Usage: applied_leases EVENT-LOG [LAST EVENT-LOG]...
// LAST: the version from which the next life of the server went on.

#include "actors/recording/event_log_file.hpp"
#include "tests/support/lease_account.hpp"

#include <cstdint>
#include <cstdio>
#include <exception>
#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace {

using namespace troupe;

void print_applied(const char* event_log, uint64_t last) {
  recording::event_log_reader from{event_log};
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
            std::printf("%llu %llu\n",
                        static_cast<unsigned long long>(lease.epoch()),
                        static_cast<unsigned long long>(lease.id()));
  }
}

} // namespace

int main(int argc, char** argv) {
  try {
    test::lease_account account;
    for (int i = 1; i < argc; i += 2) {
      auto last = i + 1 < argc ? std::stoull(argv[i + 1]) : UINT64_MAX;
      account.add(argv[i], last);
      print_applied(argv[i], last);
    }
    for (const auto& breach : account.breaches())
      std::fprintf(stderr, "%s\n", breach.c_str());
    return account.breaches().empty() ? 0 : 1;
  } catch (const std::exception& err) {
    std::fprintf(stderr, "%s\n", err.what());
    return 2;
  }
}
