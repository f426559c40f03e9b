#pragma once
// Draws random faults for a simulated run (`--fault random`).
//
// A pure function, called once before the run; thread-safe.

#include "config/values/faults.hpp"

#include <vector>

namespace troupe::cores {

/// Draws faults for a cluster of `workers` workers, ordered by time. A function
/// of its arguments. Each kind is about equally frequent. One crash of a worker
/// in eight is permanent, but never all workers are lost.
std::vector<config::fault> draw_faults(const config::random_faults& odds,
                                       uint32_t workers);

} // namespace troupe::cores
