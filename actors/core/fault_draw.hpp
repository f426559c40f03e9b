#pragma once

#include "config/values/faults.hpp"

#include <vector>

namespace troupe::cores {

/// Draws faults for a cluster of so many workers, in the order of times. A
/// function of its arguments. Every kind comes about as often; a crash of a
/// worker is for good in one of eight cases, but never for all of them.
std::vector<config::fault> draw_faults(const config::random_faults& what,
                                       uint32_t workers);

} // namespace troupe::cores
