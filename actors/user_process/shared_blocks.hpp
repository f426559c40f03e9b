#pragma once
// The memory that a worker or an evaluator shares with the process that
// computes for it: knows which regions that process has mapped, and tells it of
// others. Weights and gradients lie on the GPU of that process if both can use
// its memory, else in the host's. Owned by one actor; not thread-safe.

#include "actors/user_process/process_line.hpp"
#include "config/text/settings.hpp"
#include "messages/payload.hpp"
#include "messages/transport/shm/shared_memory.hpp"
#include "models/device/shared_gpu_memory.hpp"
#include "models/layout/flat_layout.hpp"
#include "models/layout/flat_pool.hpp"

#include <map>
#include <memory>
#include <set>

namespace troupe::external {

/// Where the blocks lie.
struct shared_places {
  std::shared_ptr<transport::shared_memory> host;
  std::shared_ptr<models::shared_gpu_memory> gpu; ///< Null: all in the host's.
};

class shared_blocks {
public:
  shared_blocks(process_line_ptr line, shared_places memory,
                const models::flat_layout& layout);

  /// A pool of blocks for gradients.
  models::flat_pool pool_of_gradients() const;

  /// The answer to hello: says which tensors there are, and gives those that
  /// are not trained, if there are any.
  void welcome(const config::training_settings& training,
               const payload& frozen);

  /// A block with the weights in memory that the process can use: themselves,
  /// or a copy, which is there when this returns. Throws run_error if the GPU
  /// has failed.
  /// @param first Where they begin in the block, of which they may be a part.
  payload usable(const payload& weights, uint64_t first = 0);

  /// Where a block of weights or of a gradient is, for the process. Makes its
  /// region known to it first.
  block_place place_of(const payload& weights);
  block_place place_of(const at::Tensor& block);

  /// Gives the process the version that the run ends with, in memory that
  /// nobody else uses.
  /// @param applied The number of the lease whose gradient the process has sent
  /// last, if it is in these weights; else 0.
  void give_last(version number, const payload& weights, uint64_t applied);

  /// Tells the process of regions that are no longer used.
  void forget_unused();

private:
  models::flat_pool make_pool() const;
  block_place place_on_gpu(const std::byte* block);
  block_place place_in_host(const std::byte* block, uint64_t bytes);

  process_line_ptr line_;
  shared_places memory_;
  models::flat_layout layout_;
  models::flat_pool weights_;
  at::Tensor frozen_;
  at::Tensor last_;
  std::set<uint64_t> told_on_gpu_; ///< Regions that the process knows, there.
  /// Those in the host's memory, by their numbers.
  std::map<uint64_t, std::weak_ptr<const transport::shared_region>> regions_;
};

} // namespace troupe::external
