#pragma once
// Which samples are in the weights, which are out with a worker, and which are
// still to be handed out.
//
// An epoch is one pass over a permutation of the data set. The ledger deals in
// positions of that permutation; what sample stands at a position, and in which
// order epochs are shuffled, is the business of the data. A lease is a range of
// positions for one gradient. It is settled when that gradient is applied, else
// it is given back and goes to somebody later. So the settled leases of an
// epoch cover each of its positions exactly once, under any policy, with any
// number of workers, through departures and restarts. What is left out of an
// epoch, since nobody is there who has the samples, is counted.
//
// Where each rank has a part of the data to itself, each part has a ledger
// (data_ledger.hpp).
//
// A value: copy it to keep a state. Not thread-safe; one owner.

#include "messages/lease.hpp"

#include <map>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

namespace troupe::cores {

/// The positions [first, first + count) of an epoch's permutation.
struct sample_range {
  uint64_t first = 0;
  uint64_t count = 0;

  bool operator==(const sample_range&) const = default;
};

/// What a checkpoint keeps: everything that is not settled. Leases that are out
/// count as unsettled, so it can be taken up with other workers and another
/// batch size.
struct ledger_state {
  struct open_epoch {
    uint64_t number = 0;
    std::vector<sample_range> unsettled; ///< In order, with gaps in between.

    bool operator==(const open_epoch&) const = default;
  };

  std::vector<open_epoch> epochs; ///< The incomplete ones, oldest first.
  uint64_t next_epoch = 0; ///< So many were opened: those below that are not in
                           ///< `epochs` are complete.
  uint64_t left_out = 0;   ///< Samples of these that were never settled.

  bool operator==(const ledger_state&) const = default;
};

/// So many samples that the first epoch never ends.
inline constexpr uint64_t endless = UINT64_MAX;

/// Which part of the data a ledger is of: one of `parts`, whose leases have
/// numbers of their own.
struct part_of_data {
  uint32_t number = 0;
  uint32_t parts = 1;
};

class lease_ledger {
public:
  /// A ledger of a data set with `samples` samples, dealt out in leases of
  /// `batch`. Throws `std::invalid_argument` when one of them is 0.
  lease_ledger(uint64_t samples, uint64_t batch, part_of_data part = {});

  /// Takes up a state; all of its unsettled samples are to be handed out. Empty
  /// when it cannot be the state of a data set of this size.
  [[nodiscard]] static std::optional<lease_ledger>
  restore(uint64_t samples, uint64_t batch, const ledger_state& state,
          part_of_data part = {});

  // -- leases -----------------------------------------------------------------

  /// Hands out the lowest free positions of the oldest epoch that has some:
  /// `batch` of them, or fewer at the end of a free range (the last lease of an
  /// epoch may be short). Opens the next epoch when none is free, so there is
  /// always a lease. O(log n).
  lease grant(worker_id who);

  /// The gradient of this lease has been applied. False when no such lease is
  /// out.
  bool settle(lease_id id);

  /// The gradient will not be applied: the samples are free again. False when
  /// no such lease is out.
  bool give_back(lease_id id);

  /// The gradient will not be applied, and the samples are left out of this
  /// epoch. False when no such lease is out.
  bool leave_out(lease_id id);

  /// Leaves out what is free of the epochs before this one: the next lease is
  /// of it, or of a later one.
  void pass_over(uint64_t epoch);

  /// Gives back what `who` has, except for the leases in `keep` (those of
  /// gradients that are in but not yet applied); returns them in the order in
  /// which they were granted. Goes through all leases that are out.
  std::vector<lease> give_back_all(worker_id who,
                                   std::span<const lease_id> keep = {});

  /// The lease, if it is out; valid until it is settled or given back.
  const lease* find(lease_id id) const;

  // -- properties -------------------------------------------------------------

  uint64_t samples() const { return samples_; }

  uint64_t batch() const { return batch_; }

  /// Leases that are out.
  size_t outstanding() const { return leases_.size(); }

  /// Samples whose gradients were applied, over all epochs.
  uint64_t settled() const {
    return samples_ * next_epoch_ - unsettled_ - left_out_;
  }

  /// Samples that were left out, over all epochs.
  uint64_t left_out() const { return left_out_; }

  /// The oldest epoch of which a lease is out.
  std::optional<uint64_t> oldest_out() const;

  /// So many epochs from the first are complete, without a gap: a later one
  /// that is complete before an earlier one does not count yet.
  uint64_t epochs_completed() const;

  /// Settled samples by the size of the data set.
  double epochs() const;

  ledger_state snapshot() const;

private:
  using range_map = std::map<uint64_t, uint64_t>; ///< First -> count.

  struct epoch_state {
    range_map free;
    size_t out = 0; ///< Leases of this epoch that are out.
  };

  struct entry {
    lease what;
    worker_id holder;
  };

  using lease_map = std::unordered_map<lease_id, entry>;

  /// Adds a range, joined with its neighbours.
  static void insert(range_map& ranges, uint64_t first, uint64_t count);

  void open_epoch();
  lease take_out(lease_map::iterator which);
  void free(const lease& what);
  void close_if_done(uint64_t epoch);

  uint64_t samples_;
  uint64_t batch_;
  part_of_data part_;
  uint64_t next_epoch_ = 0;
  uint64_t unsettled_ = 0; ///< Samples of open epochs that are not settled.
  uint64_t left_out_ = 0;
  lease_id next_lease_;
  std::map<uint64_t, epoch_state> open_;
  std::set<uint64_t> grantable_; ///< Open epochs with free positions.
  lease_map leases_;
};

} // namespace troupe::cores
