#pragma once
// Immutable versions of the weights, shared by all their readers. The memory of
// a version returns to a pool when its last reader drops it, on any thread, and
// is used for a later version. Owned by a parameter server or shard.

#include "config/text/settings.hpp"
#include "messages/ids.hpp"
#include "models/layout/flat_pool.hpp"

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <memory>

namespace troupe::models {

/// Weights that never change again.
struct weights_version {
  version id;
  /// Flat and contiguous; nobody may write to it. The memory lives as long as
  /// any tensor that shares it, so a view may outlive this object.
  at::Tensor flat;
};

using weights_ptr = std::shared_ptr<const weights_version>;

/// Makes versions and knows the newest. Thread-safe, except that two writers
/// must agree who publishes first.
class weights_store {
public:
  /// @param count Elements of a version.
  /// @param source Where the memory of versions comes from.
  weights_store(uint64_t count, config::scalar_type dtype,
                payload_memory_ptr source = heap_memory());

  /// Versions on a GPU, which are read in the order of its streams.
  weights_store(uint64_t count, config::scalar_type dtype, c10::Device where);

  ~weights_store();

  weights_store(const weights_store&) = delete;
  weights_store& operator=(const weights_store&) = delete;

  /// Memory for the next version, page-aligned, with arbitrary content. Returns
  /// to the pool if it is dropped unpublished.
  at::Tensor next_buffer();

  /// Memory for a step from the newest version: that version's own memory if
  /// nobody but the store refers to it. Then the step is made in place and that
  /// version no longer exists. Otherwise as next_buffer.
  /// @pre Nobody asks for the newest version before the next is published.
  at::Tensor step_buffer();

  /// Makes `flat` the newest version; nobody may write to it from now on.
  /// @pre `flat` came from next_buffer (of this or another store) or is a flat
  /// tensor that nobody will write to.
  weights_ptr publish(version id, at::Tensor flat);

  /// Null until the first publish.
  weights_ptr newest() const;

  flat_pool::statistics stats() const;

private:
  struct state;
  std::unique_ptr<state> state_;
};

} // namespace troupe::models
