#pragma once
// How many local steps each worker makes in a round, where machines are not
// equally quick: the quickest one makes the most, and others so many that they
// need about the same time (Liu et al. 2024, "Asynchronous Local-SGD Training
// for Language Modeling", arXiv:2401.09135: dynamic local updates).
//
// Part of the step scheduler. Pure: a function of the rounds that it is told.
// Not thread-safe.

#include "actors/policies/by_rank.hpp"
#include "messages/ids.hpp"

#include <algorithm>
#include <cmath>

namespace troupe::cores {

class round_pace {
public:
  /// @param most Steps of a round of the quickest worker; 1 at least.
  explicit round_pace(uint32_t most) : most_(most) {
    // nop
  }

  /// The worker has computed a round of so many steps, for so many seconds.
  void note(worker_id who, uint64_t steps, double seconds) {
    auto rate = static_cast<double>(steps) / seconds;
    if (!std::isfinite(rate) || rate <= 0)
      return;
    auto [known, is_first] = rates_.try_emplace(who, rate);
    if (!is_first)
      known->second += newest_counts * (rate - known->second);
  }

  uint32_t most() const { return most_; }

  void forget(worker_id who) { rates_.erase(who); }

  /// Steps of the worker's next round: the most for one that has made none.
  uint32_t steps_of(worker_id who) const {
    auto found = rates_.find(who);
    if (found == rates_.end())
      return most_;
    auto quickest = found->second;
    for (const auto& [other, rate] : rates_)
      quickest = std::max(quickest, rate);
    auto share = std::floor(most_ * (found->second / quickest));
    return std::max(static_cast<uint32_t>(share), 1u);
  }

private:
  /// How much of a rate comes from the newest round, so that one that was slow
  /// by chance changes little.
  static constexpr double newest_counts = 0.3;

  uint32_t most_;
  policies::by_rank<double> rates_; ///< Steps in a second.
};

} // namespace troupe::cores
