#pragma once
// Who gets which samples: all workers from one pool, or each rank from a part
// of the data that is its own. Each part has its own ledger of leases, and its
// rank goes through it epoch by epoch at its own pace, without waiting for
// others.
//
// With parts, samples that are given back go to the same rank again, also in a
// later life. While all ranks are present, each sample of each part is settled
// once an epoch. An epoch is complete when every rank that is present has
// completed it; this is checked when one of them completes an epoch. Samples
// that absent ranks have not finished by then are left out and counted; a rank
// that returns continues with the oldest incomplete epoch. Samples of a
// gradient that comes too late are left out, too: no other rank has them, and
// the slow rank would be late with them again.
//
// Owned by the step scheduler. A value: copy it to keep a state. Not
// thread-safe.

#include "actors/core/lease_ledger.hpp"

namespace troupe::cores {

/// Samples in each rank's part where all read the same data: every rank gets
/// the same number. A remainder is filled up with the first samples of the
/// order, or, with `drop_last`, cut off. 0 when nothing is left.
uint64_t samples_of_part(uint64_t samples, uint32_t parts, bool drop_last);

/// What a checkpoint records of the parts.
struct parts_state {
  struct part {
    owned_data data; ///< Its samples, and their digest if it owns files.
    ledger_state ledger;

    bool operator==(const part&) const = default;
  };

  /// By rank; empty for a rank whose data is not known yet.
  std::vector<std::optional<part>> parts;
  uint64_t completed = 0; ///< Epochs.

  bool operator==(const parts_state&) const = default;
};

class data_ledger {
public:
  /// One pool for all workers.
  data_ledger(lease_ledger shared); // NOLINT(google-explicit-constructor)

  /// One part of the data for each of `parts` ranks; their sizes are told
  /// later, by `own`. Throws `std::invalid_argument` when an argument is 0.
  data_ledger(uint32_t parts, uint64_t batch);

  /// Continues from a state; empty when the state is not valid.
  [[nodiscard]] static std::optional<data_ledger>
  restore(const parts_state& state, uint64_t batch);

  // -- ranks present and absent -----------------------------------------------

  /// Sets the samples of this rank's part. False when other samples are known
  /// already.
  /// @pre samples > 0, and the rank has a part
  bool own(worker_id who, const owned_data& data);

  /// The rank is present from now on, or (`leave`) absent.
  void enter(worker_id who);
  void leave(worker_id who);

  // -- leases, as in lease_ledger ---------------------------------------------

  /// As in `lease_ledger`. With parts it does nothing: a rank whose part is
  /// done goes on while the others are not.
  void end_before(std::optional<uint64_t> epoch);

  bool has_free() const;

  /// @pre With parts: the rank's data is known.
  std::optional<lease> grant(worker_id who, uint64_t most = 0);
  bool settle(lease_id id);
  bool give_back(lease_id id);

  /// The gradient came too late. With parts its samples are left out, else they
  /// go to other workers.
  bool give_up(lease_id id);

  const lease* find(lease_id id) const;

  // -- properties -------------------------------------------------------------

  /// Whether ranks have parts of the data to themselves.
  bool has_parts() const { return parted_; }

  /// Samples in an epoch, over all parts that are known.
  uint64_t samples() const;

  size_t outstanding() const;
  uint64_t settled() const;
  uint64_t left_out() const;

  /// Complete epochs, counted from the first without a gap.
  uint64_t epochs_completed() const;

  /// The state, with one pool.
  ledger_state snapshot() const { return parts_.front().leases->snapshot(); }

  /// The state, with parts.
  parts_state snapshot_of_parts() const;

private:
  struct part {
    owned_data data;
    std::optional<lease_ledger> leases; ///< Empty: not known yet.
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
  uint64_t completed_ = 0; ///< Epochs; with parts only.
};

} // namespace troupe::cores
