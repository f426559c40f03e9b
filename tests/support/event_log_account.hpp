#pragma once
// Counts from a run's event logs which samples were put into the weights,
// position by position. Owned by a test.

#include "actors/log_files/event_log_file.hpp"

#include <filesystem>
#include <map>
#include <tuple>

namespace troupe::test {

class event_log_account {
public:
  /// Adds what one life of the server applied, up to version `last`.
  void add(const std::filesystem::path& event_log, uint64_t last = UINT64_MAX) {
    recording::event_log_reader from{event_log};
    std::map<std::tuple<uint32_t, uint32_t, uint64_t>, proto::LogLease> held;
    for (proto::LogEvent event; from.next(event);) {
      if (event.has_arrived()) {
        const auto& what = event.arrived();
        held[{what.worker(), what.life(), what.sequence()}] = what.lease();
        strays_ +=
          what.lease().part() != 0 && what.lease().part() != what.worker();
      }
      for (const auto& step : event.decision().updates())
        if (step.makes() <= last)
          for (const auto& id : step.gradients())
            count(held.at({id.worker(), id.life(), id.sequence()}));
    }
  }

  /// How often each position of an epoch was applied, by part.
  std::map<uint32_t, std::map<uint64_t, int>> of(uint64_t epoch) const {
    auto found = counts_.find(epoch);
    return found == counts_.end()
             ? std::map<uint32_t, std::map<uint64_t, int>>{}
             : found->second;
  }

  uint64_t samples_of(uint64_t epoch) const {
    uint64_t sum = 0;
    for (const auto& [part, positions] : of(epoch))
      sum += positions.size();
    return sum;
  }

  /// The number of positions, over all epochs, that were applied more than
  /// once.
  uint64_t repeats() const {
    uint64_t sum = 0;
    for (const auto& [epoch, parts] : counts_)
      for (const auto& [part, positions] : parts)
        for (auto [at, times] : positions)
          sum += times > 1;
    return sum;
  }

  /// Gradients of samples that belong to another rank's part.
  uint64_t strays() const { return strays_; }

private:
  void count(const proto::LogLease& record) {
    auto& positions = counts_[record.epoch()][record.part()];
    for (auto i = record.first(); i < record.first() + record.count(); ++i)
      ++positions[i];
  }

  std::map<uint64_t, std::map<uint32_t, std::map<uint64_t, int>>> counts_;
  uint64_t strays_ = 0;
};

} // namespace troupe::test
