#pragma once
// The order in which an epoch visits the samples. It depends only on (seed,
// epoch, n), not on the platform, the number of workers or the policy. Equal
// shares for N ranks are taken from it as PyTorch's DistributedSampler does:
// rank r gets every N-th position, starting with r.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace troupe::data {

/// The numbers 0 .. n-1 in the order of epoch `epoch` (0, 1, ...).
/// @throws run_error if n does not fit into 32 bits.
std::vector<int64_t> epoch_permutation(uint64_t seed, uint64_t epoch,
                                       uint64_t n);

/// Looks up the samples of leases. Keeps the orders of the two epochs used last
/// (8 bytes a sample each), so that leases of two epochs can alternate at no
/// cost. Not thread-safe: each loader owns one.
class epoch_order {
public:
  /// @param n Samples in the training set.
  /// @param shares Ranks with a share each; 1: one share for all.
  epoch_order(uint64_t seed, uint64_t n, uint32_t shares = 1);

  /// Samples `first` .. `first + count - 1` of the order of `epoch`, or of a
  /// rank's share of it. After the last sample the first ones are repeated, so
  /// that all shares have the same size: n / shares, rounded up.
  /// @returns a view that is valid until the next call.
  /// @throws run_error if the range leaves the order or the share.
  std::span<const int64_t> lease_indices(uint64_t epoch, uint64_t first,
                                         uint64_t count, uint32_t rank = 0);

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
  uint64_t shares_;
  std::vector<int64_t> share_; ///< Result of the last look-up, with shares.
  uint64_t uses_ = 0;
  std::array<cached_epoch, 2> cache_;
};

} // namespace troupe::data
