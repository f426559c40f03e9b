#include "bench/cluster/applied_samples.hpp"

#include "actors/log_files/event_log_file.hpp"

#include <map>
#include <tuple>

namespace troupe::bench {

namespace {

/// How often each position of an epoch's order is in the weights, by epoch.
using counts_by_epoch = std::map<uint64_t, std::map<uint64_t, uint64_t>>;

counts_by_epoch count_positions(recording::event_log_reader& log) {
  counts_by_epoch out;
  std::map<std::tuple<uint32_t, uint32_t, uint64_t>, proto::LogLease> arrived;
  for (proto::LogEvent event; log.next(event);) {
    if (event.has_arrived()) {
      const auto& gradient = event.arrived();
      arrived[{gradient.worker(), gradient.life(), gradient.sequence()}] =
        gradient.lease();
    }
    for (const auto& update : event.decision().updates())
      for (const auto& id : update.gradients()) {
        const auto& lease = arrived.at({id.worker(), id.life(), id.sequence()});
        for (uint64_t i = 0; i < lease.count(); ++i)
          ++out[lease.epoch()][lease.first() + i];
      }
  }
  return out;
}

} // namespace

sample_account count_samples(const std::filesystem::path& event_log) {
  recording::event_log_reader log{event_log};
  sample_account out;
  auto counts = count_positions(log);
  auto last = counts.empty() ? 0 : counts.rbegin()->first;
  for (const auto& [epoch, positions] : counts) {
    for (auto [position, times] : positions) {
      out.applied += times;
      out.doubled += times - 1;
    }
    // While the last epoch runs, leases of the one before it may be out.
    if (epoch + 1 < last)
      out.lost += log.begin().samples() - positions.size();
  }
  return out;
}

} // namespace troupe::bench
