#pragma once
// Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2,
// 3", SC 2011): a counter-based generator. A block of random bits is a pure
// function of (key, counter), so any place of any stream can be computed
// anywhere, with the same bits on every platform.

#include <array>
#include <cstdint>

namespace troupe::data {

/// One block: 4 x 32 random bits for a 128-bit counter under a 64-bit key.
constexpr std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter,
                                             std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    uint64_t a = uint64_t{0xD2511F53} * counter[0];
    uint64_t b = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

/// What a stream of random numbers is for. Streams of different purpose are
/// independent although they share the seed.
enum class random_purpose : uint32_t {
  epoch_order = 1,
  train_test_split = 2,
  compute_time = 3,
  synthetic_class = 4,
  synthetic_sample = 5,
  augmentation = 6,
  dropout = 0x80000000 ///< + the number of the layer; drawn by the models.
};

/// A sequence of random numbers: a function of (seed, purpose, index) alone.
/// Not thread-safe; cheap to make, so make one for each use.
class philox_stream {
public:
  /// @param index Selects one of 2^64 streams, for example the epoch.
  constexpr philox_stream(uint64_t seed, random_purpose purpose, uint64_t index)
    : key_{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)},
      counter_{0, static_cast<uint32_t>(purpose), static_cast<uint32_t>(index),
               static_cast<uint32_t>(index >> 32)} {
    // nop
  }

  /// 32 random bits. The stream repeats itself after 2^34 draws.
  constexpr uint32_t next() {
    if (used_ == 4) {
      block_ = philox4x32(counter_, key_);
      ++counter_[0];
      used_ = 0;
    }
    return block_[used_++];
  }

  /// Uniform in [0, bound) without bias (Lemire, "Fast random integer
  /// generation in an interval", 2019).
  /// @pre bound > 0
  constexpr uint32_t below(uint32_t bound) {
    uint64_t product = uint64_t{next()} * bound;
    if (static_cast<uint32_t>(product) < bound) {
      uint32_t threshold = -bound % bound;
      while (static_cast<uint32_t>(product) < threshold) {
        product = uint64_t{next()} * bound;
      }
    }
    return static_cast<uint32_t>(product >> 32);
  }

  /// Uniform in [low, high), in steps of 2^-32 of the range.
  constexpr double uniform(double low, double high) {
    return low + (high - low) * (next() * 0x1p-32);
  }

private:
  std::array<uint32_t, 2> key_;
  std::array<uint32_t, 4> counter_;
  std::array<uint32_t, 4> block_{};
  uint32_t used_ = 4;
};

} // namespace troupe::data
