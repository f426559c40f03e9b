#pragma once
// Decides whether a gradient is an outlier: whether its norm is far beyond
// those of the other workers' gradients. docs/design/0038-outliers.md has the
// reasons.
//
// Each worker is known by the median of its last few norms, or by the newest of
// them if that is larger; those of outliers are among them. So when the
// gradients of all workers grow at once, each loses one or two and then all go
// on; and however many a worker sends, its own norms never count for itself.
//
// A gradient is the mean over its samples, as a step weighs it. The mean of
// fewer samples has more noise, at most by the root of the ratio; so the norm
// of another's gradient of more samples counts for that much more.
//
// A value, owned by the step scheduler. Pure; not thread-safe.

#include "actors/policies/by_rank.hpp"
#include "messages/ids.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace troupe::cores {

/// The L2 norm of a gradient, beside those of the other workers.
struct judged_norm {
  double norm = 0;
  /// Of the norms by which the other workers are known; nothing while these are
  /// too few.
  std::optional<double> median{};
  bool is_outlier = false;
};

class norm_watch {
public:
  /// Gradients by which a worker is known.
  static constexpr size_t recent = 5;

  /// Other workers that must be known before a gradient is refused: of a single
  /// one nobody could say which of the two is wrong.
  static constexpr size_t fewest_others = 2;

  /// @param factor Times the median that a norm may be.
  explicit norm_watch(double factor) : factor_(factor) {
    // nop
  }

  /// Judges a gradient, and keeps its norm for the judgement of others.
  /// @param norm Not NaN; infinite where the squares exceed a double.
  /// @param samples That the gradient is the mean of.
  judged_norm judge(worker_id who, double norm, uint64_t samples);

  /// The worker has left.
  void forget(worker_id who) { known_.erase(who); }

private:
  struct entry {
    double norm = 0;
    uint64_t samples = 0;
  };

  /// The last gradients of a worker, in a ring.
  struct history {
    std::array<entry, recent> entries{};
    size_t count = 0; ///< Of all gradients so far.

    void add(const entry& next);
    double norm_for(uint64_t samples) const;
  };

  std::optional<double> median_of_others(worker_id who, uint64_t samples) const;

  double factor_;
  policies::by_rank<history> known_;
};

} // namespace troupe::cores
