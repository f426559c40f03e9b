#include "tests/device/fake/order.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace troupe::testing::fake {

void join(clock& to, const clock& from) {
  if (to.size() < from.size())
    to.resize(from.size());
  for (size_t i = 0; i < from.size(); ++i)
    to[i] = std::max(to[i], from[i]);
}

bool is_before(const moment& x, const clock& by) {
  return x.stream < by.size() && by[x.stream] >= x.tick;
}

clock& order::of(stream_number which) {
  if (streams_.size() <= which)
    streams_.resize(which + 1);
  auto& out = streams_[which];
  if (out.size() <= which)
    out.resize(which + 1);
  return out;
}

moment order::begin(stream_number which, std::string action) {
  auto& its = of(which);
  join(its, host_);
  return {which, ++its[which], std::move(action)};
}

std::string access_history::add(size_t first, size_t last, bool writes,
                                const moment& now, const clock& knows) {
  for (const auto& x : all_)
    if (x.first < last && first < x.last && (x.writes || writes) &&
        !is_before(x.when, knows))
      return now.action + " on stream " + std::to_string(now.stream) +
             (writes ? " writes" : " reads") + " what " + x.when.action +
             " on stream " + std::to_string(x.when.stream) +
             (x.writes ? " writes" : " reads") +
             ", and no event orders the two";
  // What lies within these bytes is ordered before them, so that they stand for
  // it.
  std::erase_if(all_, [&](const access& x) {
    return first <= x.first && x.last <= last &&
           (writes || (!x.writes && x.when.stream == now.stream));
  });
  all_.push_back({first, last, writes, now});
  return {};
}

std::vector<access_history::access>
access_history::open_for(const clock& by) const {
  std::vector<access> out;
  std::ranges::copy_if(all_, std::back_inserter(out),
                       [&](const access& x) { return !is_before(x.when, by); });
  return out;
}

} // namespace troupe::testing::fake
