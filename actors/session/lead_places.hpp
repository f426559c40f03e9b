#pragma once
// Where a node looks for the lead of its run, which may move: peers go on
// without a lead that has died (docs/design/0028-peers.md).
//
// A part of a session client's state. Pure; not thread-safe.

#include "config/values/address.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace troupe {

class lead_places {
public:
  explicit lead_places(config::address first) : all_{std::move(first)} {
    // nop
  }

  /// The place to try, or where the lead was found.
  const config::address& current() const { return all_[at_]; }

  /// Whether the current place is where the lead was last.
  bool is_first() const { return at_ == 0; }

  /// Goes on to the next place. False when that is the first one again: all
  /// have been tried.
  bool next() {
    at_ = (at_ + 1) % all_.size();
    return at_ > 0;
  }

  /// The lead is here. @param successors Who may lead after it, in this order.
  void found(std::vector<config::address> successors) {
    successors.insert(successors.begin(), current());
    all_ = std::move(successors);
    at_ = 0;
  }

  /// A lead says that it is there: it is tried next.
  void add(const config::address& place) {
    std::erase(all_, place);
    all_.insert(all_.begin(), place);
    at_ = 0;
  }

private:
  std::vector<config::address> all_;
  size_t at_ = 0;
};

} // namespace troupe
