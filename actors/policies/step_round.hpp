#pragma once
// The step that all members make together, and the policies that make such
// steps: `sync`, `backup` and `quorum`.
//
// A member is in one of three states:
//
//   waiting    joined, not released yet: takes part from the next step on
//   computing  released; `reads` is the version that it was released with
//   held       its gradient is in the open step; it waits for the close
//
// A round tracks these states and carries out a close. The policy decides when
// to close. A member of the policy; pure, not thread-safe.

#include "actors/policies/by_rank.hpp"
#include "actors/policies/policy.hpp"
#include "actors/policies/state_text.hpp"

namespace troupe::policies {

/// What becomes of gradients that were computed on an older version.
enum class late_gradients : uint8_t {
  drop, ///< Their workers join the open step late, with the newest version.
  count ///< They are part of the open step.
};

class step_round {
public:
  explicit step_round(late_gradients late = late_gradients::drop)
    : late_(late) {
    // nop
  }

  // -- properties -------------------------------------------------------------

  version current() const { return current_; }

  /// How many members compute, on the current version or an older one.
  size_t computing() const { return computing_; }

  /// How many gradients the open step has so far, including those of members
  /// that have left.
  size_t gradients() const { return gradients_.size(); }

  /// The members that compute on version `v`, ordered by id.
  std::vector<worker_id> computing_on(version v) const;

  /// Of these, the members whose last gradients, `times` or more in a row, were
  /// dropped as late.
  std::vector<worker_id> late_in_a_row(version v, uint32_t times) const;

  /// The members that compute, if somebody waits for them; else none.
  std::vector<worker_id> waiting_for() const;

  // -- events -----------------------------------------------------------------

  void reset(version v);

  /// Adds members, in the state waiting. Throws `std::logic_error` if one is a
  /// member already.
  void join(std::span<const worker_id> who);

  /// Removes a member, if it is one; its gradient stays in the open step.
  void leave(worker_id who);

  /// Puts a gradient of the current version into the step, or also one of an
  /// older version; else that is dropped, and its worker is released with the
  /// current version. A gradient that is not expected (its worker is no member,
  /// or does not compute) is dropped.
  void arrive(const arrival& push, decision& out);

  /// Releases a computing member again, now with the current version.
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
    version reads;     ///< Valid while computing.
    uint32_t late = 0; ///< How many of its last gradients were dropped as late.
  };

  void release(worker_id who, member& to, decision& out);

  late_gradients late_;
  by_rank<member> members_;
  std::vector<part> gradients_;
  version current_;
  size_t computing_ = 0;
};

/// A policy whose members make each step together. It has only to say when the
/// step closes.
class step_round_policy : public policy {
public:
  explicit step_round_policy(late_gradients late = late_gradients::drop)
    : round_(late) {
    // nop
  }

  void reset(version v) override { round_.reset(v); }

  version current() const final { return round_.current(); }

  decision on_join(std::span<const worker_id> who) final;
  decision on_leave(worker_id who) final;
  decision on_arrival(const arrival& push) final;
  decision on_pull(worker_id who) final;

  std::vector<worker_id> waiting_for() const final {
    return round_.waiting_for();
  }

protected:
  /// Closes the open step, if that is due.
  virtual void close_if_due(decision& out) = 0;

  step_round round_;
};

} // namespace troupe::policies
