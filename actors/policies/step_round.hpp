#pragma once
// The step that a cluster makes together: the part that `sync` and `backup`
// share.
//
// A member is in one of three states:
//
//   waiting    joined, not released yet: takes part from the next step on
//   computing  released; `reads` is the version that it was released with
//   held       its gradient is in the step that is open, it waits for the close
//
// A round knows who is where and what a close does. When to close is the
// policy's business.

#include "actors/policies/by_rank.hpp"
#include "actors/policies/policy.hpp"
#include "actors/policies/state_text.hpp"

namespace troupe::policies {

class step_round {
public:
  // -- properties -------------------------------------------------------------

  version current() const { return current_; }

  /// How many members compute, be it on the current version or an older one.
  size_t computing() const { return computing_; }

  /// How many gradients the open step has so far, those of members that have
  /// left included.
  size_t gradients() const { return gradients_.size(); }

  /// The members that compute on version `v`, in order.
  std::vector<worker_id> computing_on(version v) const;

  /// The members that compute, provided that somebody waits for them.
  std::vector<worker_id> waiting_for() const;

  // -- events -----------------------------------------------------------------

  void reset(version v);

  /// Adds members in the state waiting. Throws `std::logic_error` for a member.
  void join(std::span<const worker_id> who);

  /// Removes a member, if it is one; its gradient stays in the open step.
  void leave(worker_id who);

  /// Puts a gradient of the current version into the step. One of an older
  /// version is dropped and its worker released with the current version, so
  /// that it takes part in the open step late. One that nobody waits for (not
  /// a member, or not computing) is dropped.
  void arrive(const arrival& what, decision& out);

  /// Releases a computing member once more, now with the current version.
  void pull(worker_id who, decision& out);

  /// Makes the gradients of the step one update, in the order of their ids, and
  /// releases all that are held or waiting. A step without gradients makes no
  /// update.
  void close(decision& out);

  /// Adds the state of the round to that of its policy.
  void write(state_writer& out) const;

private:
  enum class state : uint8_t { waiting, computing, held };

  struct member {
    state now = state::waiting;
    version reads; ///< Of use while computing.
  };

  void release(worker_id who, member& what, decision& out);

  by_rank<member> members_;
  std::vector<part> gradients_;
  version current_;
  size_t computing_ = 0;
};

} // namespace troupe::policies
