#pragma once
// The order in which an epoch visits the samples. It depends on (seed, epoch,
// n) only: not on the platform, the number of workers or the policy.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace troupe::data {

/// The numbers 0 .. n-1 in the order of epoch `epoch` (0, 1, ...).
/// @throws run_error if n does not fit into 32 bits.
std::vector<int64_t> epoch_permutation(uint64_t seed, uint64_t epoch,
                                       uint64_t n);

/// Looks up the samples of leases. Keeps the orders of the two epochs used
/// last (8 bytes a sample each), so that the turn of an epoch costs nothing
/// when leases of both are about. Not thread-safe: one for each loader.
class epoch_order {
public:
  /// @param n Samples in the training set.
  epoch_order(uint64_t seed, uint64_t n);

  /// Samples `first` .. `first + count - 1` of the order of `epoch`.
  /// @returns a view that is valid until the next call.
  /// @throws run_error if the range leaves [0, n).
  std::span<const int64_t> lease_indices(uint64_t epoch, uint64_t first,
                                         uint64_t count);

  uint64_t size() const noexcept { return size_; }

private:
  struct cached_epoch {
    uint64_t epoch = 0;
    uint64_t last_use = 0; ///< 0: never filled.
    std::vector<int64_t> order;
  };

  const cached_epoch& order_of(uint64_t epoch);

  uint64_t seed_;
  uint64_t size_;
  uint64_t uses_ = 0;
  std::array<cached_epoch, 2> cache_;
};

} // namespace troupe::data
