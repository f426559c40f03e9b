#pragma once
// Who gets which samples: all from one pool, or each rank from a part of the
// data that is its own. A part has a ledger of leases to itself, and its rank
// goes through it epoch by epoch at its own pace, waiting for nobody.
//
// With parts, what is given back goes to the same rank again, in whatever life.
// While all ranks are there, each sample of each part is settled once an epoch.
// An epoch is complete when every rank that is there has completed it; that is
// looked at when one of them completes an epoch. What ranks that are gone have
// not done of it by then is left out, and counted; one that comes back goes on
// with the oldest epoch that is not complete. Samples of a gradient that comes
// too late are left out, too: nobody else has them, and who is late would be
// late with them again.
//
// A value: copy it to keep a state. Not thread-safe; one owner.

#include "actors/core/lease_ledger.hpp"

namespace troupe::cores {

/// Samples of each rank's part where all read the same data: every rank gets
/// as many. What does not divide evenly is filled up with the first samples of
/// the order, or, with `drop_last`, cut off. 0 when nothing is left.
uint64_t samples_of_part(uint64_t samples, uint32_t parts, bool drop_last);

/// What a checkpoint keeps of the parts.
struct parts_state {
  struct part {
    owned_data data; ///< Its samples; the digest if they are its own.
    ledger_state ledger;

    bool operator==(const part&) const = default;
  };

  /// By rank; nothing for one whose data is not known yet.
  std::vector<std::optional<part>> parts;
  uint64_t completed = 0; ///< Epochs.

  bool operator==(const parts_state&) const = default;
};

class data_ledger {
public:
  /// One pool for all.
  data_ledger(lease_ledger shared); // NOLINT(google-explicit-constructor)

  /// A part of the data for each of so many ranks, whose sizes are told later.
  /// Throws `std::invalid_argument` when one of them is 0.
  data_ledger(uint32_t parts, uint64_t batch);

  /// Takes up a state; empty when there cannot be such parts.
  [[nodiscard]] static std::optional<data_ledger>
  restore(const parts_state& state, uint64_t batch);

  // -- who is there -----------------------------------------------------------

  /// The part of this rank holds these samples. False when it is known to hold
  /// others. @pre samples > 0, and the rank has a part
  bool own(worker_id who, const owned_data& what);

  /// The rank is there from now on, or gone.
  void enter(worker_id who);
  void leave(worker_id who);

  // -- leases, as in lease_ledger ---------------------------------------------

  /// @pre With parts: the rank's data is known.
  lease grant(worker_id who);
  bool settle(lease_id id);
  bool give_back(lease_id id);

  /// The gradient came too late: with parts its samples are left out, else they
  /// are for others.
  bool give_up(lease_id id);

  const lease* find(lease_id id) const;

  // -- properties -------------------------------------------------------------

  /// Whether ranks have parts of the data to themselves.
  bool has_parts() const { return parted_; }

  /// In an epoch, of all parts that are known.
  uint64_t samples() const;

  size_t outstanding() const;
  uint64_t settled() const;
  uint64_t left_out() const;

  /// Without a gap from the first.
  uint64_t epochs_completed() const;

  /// With one pool.
  ledger_state snapshot() const { return parts_.front().leases->snapshot(); }

  /// With parts.
  parts_state snapshot_of_parts() const;

private:
  struct part {
    owned_data data;
    std::optional<lease_ledger> leases; ///< Nothing: not known yet.
    bool here = false;
  };

  /// The ledger that gave out this lease; null if there is none.
  lease_ledger* ledger_of(lease_id id);
  const lease_ledger* ledger_of(lease_id id) const;
  part_of_data place_of(worker_id who) const;
  void close_epochs();

  template <class F>
  bool resolve(lease_id id, F how);

  bool parted_ = false;
  uint64_t batch_;
  std::vector<part> parts_;
  uint64_t completed_ = 0; ///< With parts.
};

} // namespace troupe::cores
