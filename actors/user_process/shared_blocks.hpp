#pragma once
// The memory that a worker or an evaluator shares with the process that
// computes for it: knows which regions that process has mapped, and tells it of
// others. Owned by one actor; not thread-safe.

#include "actors/user_process/process_line.hpp"
#include "config/text/settings.hpp"
#include "messages/payload.hpp"
#include "messages/transport/shm/shared_memory.hpp"
#include "models/layout/flat_layout.hpp"
#include "models/layout/flat_pool.hpp"

#include <map>
#include <memory>
#include <span>

namespace troupe::external {

std::span<const std::byte> bytes_of(const at::Tensor& block);

class shared_blocks {
public:
  shared_blocks(process_line_ptr line,
                std::shared_ptr<transport::shared_memory> memory,
                const models::flat_layout& layout);

  /// The answer to hello: says which tensors there are, and gives those that
  /// are not trained, if there are any.
  void welcome(const config::training_settings& training,
               const payload& frozen);

  /// The weights in memory that the process can map: themselves, or a copy.
  payload mappable(const payload& weights);

  /// Where the block is, for the process. Makes its region known to it first.
  block_place place_of(std::span<const std::byte> block);

  /// Gives the process the version that the run ends with, in memory that
  /// nobody else uses.
  /// @param applied The number of the lease whose gradient the process has sent
  /// last, if it is in these weights; else 0.
  void give_last(version number, const payload& weights, uint64_t applied);

  /// Tells the process of regions that are no longer used.
  void forget_unused();

private:
  process_line_ptr line_;
  std::shared_ptr<transport::shared_memory> memory_;
  models::flat_layout layout_;
  models::flat_pool weights_;
  at::Tensor frozen_;
  at::Tensor last_;
  /// Regions that the process knows, by their numbers.
  std::map<uint64_t, std::weak_ptr<const transport::shared_region>> regions_;
};

} // namespace troupe::external
