#pragma once
// Decides when a run has reached its limits.
//
// A value, owned by the step scheduler; pure, not thread-safe.

#include "config/values/metrics.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace troupe::cores {

/// When to stop. A limit that is not set does not apply.
struct stop_limits {
  std::optional<uint64_t> epochs;    ///< Complete epochs.
  std::optional<uint64_t> max_steps; ///< Updates of the weights.
  std::optional<config::metric_target> target;
};

/// Which limit ended the run.
enum class stop_reason : uint8_t { none, epochs, max_steps, target };

/// Ends the run at the limit that is reached first; later events do not change
/// the reason. When one update reaches two limits, `epochs` is the one that is
/// named.
class stop_rule {
public:
  explicit stop_rule(const stop_limits& limits = {});

  /// The numbers of updates and complete epochs so far, counted from the very
  /// first start; to be called after a resume, too. Returns `reason()`.
  stop_reason updated(uint64_t steps, uint64_t epochs_completed);

  /// An evaluation found these. Returns `reason()`.
  stop_reason scored(const config::metrics& found);

  /// Why the run ends; `none` as long as it goes on.
  stop_reason reason() const { return reason_; }

  /// Complete epochs after which the run ends, if there is such a limit.
  std::optional<uint64_t> epochs() const { return limits_.epochs; }

  /// The reason as text, such as `reached max-steps = 500`; empty as long as
  /// the run goes on.
  std::string line() const;

private:
  stop_limits limits_;
  stop_reason reason_ = stop_reason::none;
};

} // namespace troupe::cores
