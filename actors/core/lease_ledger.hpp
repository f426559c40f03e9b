#pragma once
// Which samples are in the weights, which are leased to a worker, and which are
// still to be handed out.
//
// An epoch is one pass over a permutation of the data set. The ledger deals in
// positions of that permutation; which sample is at a position, and how epochs
// are shuffled, is decided elsewhere (data::epoch_order). A lease is a range of
// positions for one gradient. It is settled when that gradient is applied; else
// it is given back and handed out again later. So the settled leases of an
// epoch cover each of its positions exactly once, under any policy, with any
// number of workers, and across departures and restarts. Samples that nobody
// present can compute are left out of the epoch, and counted.
//
// Where each rank has a part of the data to itself, each part has a ledger
// (data_ledger.hpp), which owns it. A value: copy it to keep a state. Not
// thread-safe.

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

/// What a checkpoint records: everything that is not settled. Outstanding
/// leases count as unsettled, so that a run can continue with other workers and
/// another batch size.
struct ledger_state {
  struct open_epoch {
    uint64_t number = 0;
    std::vector<sample_range> unsettled; ///< In order, not adjacent.

    bool operator==(const open_epoch&) const = default;
  };

  std::vector<open_epoch> epochs; ///< The incomplete ones, oldest first.
  uint64_t next_epoch = 0;        ///< Epochs opened so far; those not in
                                  ///< `epochs` are complete.
  uint64_t left_out = 0; ///< Samples of complete epochs, never settled.

  bool operator==(const ledger_state&) const = default;
};

/// A number of samples with which the first epoch never ends.
inline constexpr uint64_t endless = UINT64_MAX;

/// The part of the data that a ledger covers: one of `parts`. Leases of
/// different parts have different numbers.
struct part_of_data {
  uint32_t number = 0;
  uint32_t parts = 1;
};

class lease_ledger {
public:
  /// A ledger of a data set with `samples` samples, dealt out in leases of
  /// `batch`. Throws `std::invalid_argument` when one of them is 0.
  lease_ledger(uint64_t samples, uint64_t batch, part_of_data part = {});

  /// Continues from a state; all of its unsettled samples are to be handed out.
  /// Empty when it cannot be the state of a data set of this size.
  [[nodiscard]] static std::optional<lease_ledger>
  restore(uint64_t samples, uint64_t batch, const ledger_state& state,
          part_of_data part = {});

  // -- leases -----------------------------------------------------------------

  /// From now on only epochs below this number are handed out; empty, as at
  /// first: all epochs.
  void end_before(std::optional<uint64_t> epoch) { end_ = epoch; }

  /// Whether `grant` has a lease.
  bool has_free() const;

  /// Hands out the lowest free positions of the oldest epoch that has some:
  /// `most` of them (0: `batch`), or fewer at the end of a free range (the last
  /// lease of an epoch may be short). Opens the next epoch when none is free;
  /// empty when that epoch is not to be handed out. O(log n).
  std::optional<lease> grant(worker_id who, uint64_t most = 0);

  /// The gradient of this lease was applied. False when the lease is not
  /// outstanding.
  bool settle(lease_id id);

  /// The gradient will not be applied: the samples are free again. False when
  /// the lease is not outstanding.
  bool give_back(lease_id id);

  /// The gradient will not be applied, and the samples are left out of this
  /// epoch. False when the lease is not outstanding.
  bool leave_out(lease_id id);

  /// Leaves out all free samples of epochs before `epoch`: the next lease
  /// belongs to that epoch or a later one.
  void pass_over(uint64_t epoch);

  /// Gives back the leases of `who`, except those in `keep` (their gradients
  /// have arrived but are not applied yet). Returns them in the order in which
  /// they were granted. Takes time linear in the outstanding leases.
  std::vector<lease> give_back_all(worker_id who,
                                   std::span<const lease_id> keep = {});

  /// The lease, if it is outstanding, else null; valid until it is settled or
  /// given back.
  const lease* find(lease_id id) const;

  // -- properties -------------------------------------------------------------

  uint64_t samples() const { return samples_; }

  uint64_t batch() const { return batch_; }

  /// The number of outstanding leases.
  size_t outstanding() const { return leases_.size(); }

  /// Samples whose gradients were applied, over all epochs.
  uint64_t settled() const {
    return samples_ * next_epoch_ - unsettled_ - left_out_;
  }

  /// Samples that were left out, over all epochs.
  uint64_t left_out() const { return left_out_; }

  /// The oldest epoch with an outstanding lease.
  std::optional<uint64_t> oldest_out() const;

  /// Complete epochs, counted from the first without a gap: an epoch that is
  /// complete before an earlier one does not count yet.
  uint64_t epochs_completed() const;

  /// Settled samples divided by the size of the data set.
  double epochs() const;

  ledger_state snapshot() const;

private:
  using range_map = std::map<uint64_t, uint64_t>; ///< First -> count.

  struct epoch_state {
    range_map free;
    size_t out = 0; ///< Outstanding leases of this epoch.
  };

  struct entry {
    lease what;
    worker_id holder;
  };

  using lease_map = std::unordered_map<lease_id, entry>;

  /// Adds a range and joins it with its neighbours.
  static void insert(range_map& ranges, uint64_t first, uint64_t count);

  void open_epoch();
  lease take_out(lease_map::iterator which);
  void free(const lease& work);
  void close_if_done(uint64_t epoch);

  uint64_t samples_;
  uint64_t batch_;
  part_of_data part_;
  std::optional<uint64_t> end_; ///< Epochs from this one on are not dealt.
  uint64_t next_epoch_ = 0;
  uint64_t unsettled_ = 0; ///< Samples of open epochs that are not settled.
  uint64_t left_out_ = 0;
  lease_id next_lease_;
  std::map<uint64_t, epoch_state> open_;
  std::set<uint64_t> grantable_; ///< Open epochs with free positions.
  lease_map leases_;
};

} // namespace troupe::cores
