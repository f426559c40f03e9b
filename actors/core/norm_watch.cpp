#include "actors/core/norm_watch.hpp"

#include "actors/policies/mutation.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

namespace troupe::cores {

namespace {

/// The middle number, or the mean of the two in the middle.
/// @pre Not empty, no NaN. Changes the order.
double median_of(std::span<double> numbers) {
  auto middle = numbers.begin() + static_cast<ptrdiff_t>(numbers.size() / 2);
  std::ranges::nth_element(numbers, middle);
  if (numbers.size() % 2 == 1)
    return *middle;
  return (*std::max_element(numbers.begin(), middle) + *middle) / 2;
}

} // namespace

void norm_watch::history::add(const entry& next) {
  entries[count % recent] = next;
  ++count;
}

double norm_watch::history::norm_for(uint64_t samples) const {
  std::array<double, recent> norms{};
  auto filled = std::min(count, recent);
  for (size_t i = 0; i < filled; ++i) {
    auto ratio = static_cast<double>(entries[i].samples) /
                 static_cast<double>(std::max<uint64_t>(samples, 1));
    norms[i] = entries[i].norm * std::sqrt(std::max(ratio, 1.0));
  }
  auto newest = norms[(count - 1) % recent];
  return std::max(newest, median_of({norms.data(), filled}));
}

std::optional<double> norm_watch::median_of_others(worker_id who,
                                                   uint64_t samples) const {
  std::vector<double> others;
  for (const auto& [other, its] : known_)
    if (other != who || mutation(bug::own_norm_counts))
      others.push_back(its.norm_for(samples));
  if (others.size() < fewest_others)
    return std::nullopt;
  return median_of(others);
}

// A median of 0 tells nothing: a worker whose samples all have no loss has
// gradients of zeros.
judged_norm norm_watch::judge(worker_id who, double norm, uint64_t samples) {
  judged_norm out{norm, median_of_others(who, samples)};
  out.is_outlier =
    out.median && *out.median > 0 && norm > factor_ * *out.median;
  known_[who].add({norm, samples});
  return out;
}

} // namespace troupe::cores
