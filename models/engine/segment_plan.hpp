#pragma once
// Decides into which segments a run cuts its network: by `[placement]`, or for
// the stages of a pipeline by how long each part of the network takes on this
// machine. Free functions; any thread.

#include "config/text/settings.hpp"
#include "models/layout/segments.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace troupe::models {

/// A network in segments, and the sizes of its worker's flat buffers.
struct segment_plan {
  std::vector<placed_segment> segments; ///< In the order of forward.
  /// Where the running statistics of each lie among all statistics.
  std::vector<element_range> statistics;
  uint64_t parameters = 0;     ///< Elements of all parameters that are trained.
  uint64_t own_parameters = 0; ///< Those with the worker: the last ones.
  uint64_t all_statistics = 0; ///< Elements of all running statistics.
  uint64_t micro_batch_size = 0; ///< Samples that go through it at a time.
  /// The most elements that go to a server, or come from it, in one pass:
  /// activations of a micro-batch, and running statistics.
  uint64_t most_activations = 0;
  int64_t classes = 0;     ///< Of the network.
  std::string description; ///< Which parts are where, for people.

  /// The worker's own elements of the flat buffers.
  element_range own() const {
    return {parameters - own_parameters, own_parameters + all_statistics};
  }
};

/// The plan of a run with these settings; no segments if each worker computes
/// the whole network in one piece. Measures for a moment if a pipeline is to be
/// cut by cost: then each call may give other cuts.
/// @param shape Of a sample: [C, H, W].
/// @throws usage_error if the network cannot be cut so.
segment_plan make_segment_plan(const config::settings& settings,
                               int64_t classes,
                               const std::vector<int64_t>& shape);

/// Seconds of a forward and backward pass through each part, medians.
std::vector<double> costs_of_parts(const config::training_settings& settings,
                                   int64_t classes,
                                   const std::vector<int64_t>& shape,
                                   int64_t samples);

/// Cuts parts with these costs into runs such that the most expensive run is as
/// cheap as can be. @pre 0 < runs <= costs.size()
std::vector<part_range> balanced_cuts(std::span<const double> costs,
                                      size_t runs);

} // namespace troupe::models
