#pragma once
// What `./dev bench` can measure.

#include "bench/figures.hpp"

#include <filesystem>

namespace troupe::bench {

struct setting {
  bool quick = false; ///< As small as it goes: does it work at all?
  std::filesystem::path trainer_node; ///< The program that runs are made of.
};

/// The virtual clock: what policies, actors and gradients cost.
void simulate(const setting& how, report& out);

} // namespace troupe::bench
