#pragma once
// Which fragment of the weights each worker exchanges next, where workers go on
// with weights of their own from round to round: a network has several
// fragments (models/layout/fragments.hpp), or steps are made before weights
// come. And the samples that count in some fragments alone.
//
// A worker begins with all of the weights, and from then on pushes the
// difference of one fragment after the other; with each answer it gets the
// fragment that it has pushed. What its steps have changed in the others stays
// with it until their turn. If a push is not taken, or the worker is lost, that
// is lost: the samples of its latest pushes are then applied in some fragments
// only.
//
// Part of the step scheduler. Pure. Not thread-safe.

#include "actors/policies/by_rank.hpp"
#include "messages/ids.hpp"

#include <deque>
#include <numeric>

namespace troupe::cores {

/// What a worker exchanges in its next round.
struct fragment_turn {
  uint32_t pushes = 0;  ///< The fragment whose difference it pushes.
  bool goes_on = false; ///< As in a release_header.

  bool operator==(const fragment_turn&) const = default;
};

class fragment_turns {
public:
  /// @param count Of the fragments. @param lost Samples of earlier lives of the
  /// run that are applied in some fragments only.
  explicit fragment_turns(uint32_t count, uint64_t lost = 0)
    : count_(count), lost_(lost) {
    // nop
  }

  /// A new life of the worker: it has nothing yet.
  void begin(worker_id who) {
    leave(who);
    members_[who] = {};
  }

  /// The worker has left, and all that others do not have.
  void leave(worker_id who) {
    auto found = members_.find(who);
    if (found == members_.end())
      return;
    lose(found->second);
    members_.erase(who);
  }

  /// The server keeps a gradient of the worker.
  void pushed(worker_id who) { members_[who].has_pushed = true; }

  /// The worker asks for weights without a gradient that was taken.
  void asks_anew(worker_id who) { members_[who].has_pushed = false; }

  /// The fragment that the worker's next gradient is of.
  uint32_t of_push(worker_id who) const {
    auto found = members_.find(who);
    return found == members_.end() ? 0 : found->second.next;
  }

  /// A gradient of so many samples is in a step.
  /// @param is_here Whether its worker is still that life.
  void applied(worker_id who, uint64_t samples, bool is_here) {
    if (count_ == 1)
      return;
    auto found = is_here ? members_.find(who) : members_.end();
    if (found == members_.end()) {
      lost_ += samples;
      return;
    }
    auto& latest = found->second.latest;
    latest.push_back(samples);
    if (latest.size() == count_)
      latest.pop_front();
  }

  /// The worker is given weights.
  /// @param dropped Whether its gradient before was discarded.
  /// @param at The newest version; it decides where those begin who begin
  /// together, so that they exchange the same fragments.
  fragment_turn release(worker_id who, version at, bool dropped) {
    auto& its = members_[who];
    fragment_turn out;
    out.goes_on = its.has_pushed && !dropped;
    if (out.goes_on) {
      its.next = (its.next + 1) % count_;
    } else {
      lose(its);
      its.next = static_cast<uint32_t>(at.value % count_);
    }
    its.has_pushed = false;
    out.pushes = its.next;
    return out;
  }

  /// Samples that are applied in some fragments only if nothing more comes.
  uint64_t partly_applied() const {
    auto out = lost_;
    for (const auto& [id, its] : members_)
      out += sum_of(its);
    return out;
  }

private:
  struct member {
    uint32_t next = 0;
    bool has_pushed = false;
    /// The samples of its latest gradients in steps, whose effect is not yet in
    /// all fragments.
    std::deque<uint64_t> latest{};
  };

  static uint64_t sum_of(const member& its) {
    return std::accumulate(its.latest.begin(), its.latest.end(), uint64_t{0});
  }

  void lose(member& its) {
    lost_ += sum_of(its);
    its.latest.clear();
  }

  uint32_t count_;
  uint64_t lost_;
  policies::by_rank<member> members_;
};

} // namespace troupe::cores
