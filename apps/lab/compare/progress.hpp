#pragma once
// How long a comparison will still take, for its lines on the terminal. Free
// functions; thread-safe.

#include "apps/lab/compare/figures.hpp"

#include <cstdint>
#include <string>

namespace troupe::app {

/// Wall seconds that the runs which are left will take: each as long as those
/// of its contender took on average, or, where none of them is done, as long
/// as all of them.
/// @param all With at least one run; a contender without runs may be absent.
/// @param contenders Their number, those without runs included.
/// @param seeds Runs of each contender.
double seconds_left(const comparison& all, size_t contenders, uint64_t seeds);

/// "40 s", "7 min" or "2.5 h".
std::string in_words(double seconds);

} // namespace troupe::app
