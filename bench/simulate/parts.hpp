#pragma once
// The parts of the topic `simulate`.

#include "bench/topics.hpp"

#include <array>
#include <cstdint>
#include <string>

namespace troupe::bench {

inline constexpr std::array policies_compared = {"sync", "backup", "ssp",
                                                 "async"};

/// Events a second of each policy alone, and of the conductor around it.
void measure_policy_events(const setting& how, report& out);

/// Seconds and memory of whole runs without gradients, for growing casts.
void measure_growth(const setting& how, report& out);

/// Runs with real gradients beside LibTorch alone.
void measure_overhead(const setting& how, report& out);

} // namespace troupe::bench
