#pragma once
// Joins the parts of a tensor, which lie in memory shared by several processes,
// into one tensor without a copy: their pages are mapped a second time, next to
// each other. A worker's joined link uses it for the weights of several shards.
//
// Not thread-safe; one owner. The tensors it returns may outlive it.

#include "messages/payload.hpp"

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace troupe::transport {

class side_by_side {
public:
  /// Joins the parts in their order and holds them until the tensor is dropped.
  /// Nothing when they cannot be mapped side by side: memory that is not
  /// shared, or parts that do not begin and end at page boundaries.
  ///
  /// @pre The memory of parts stays mapped at its address while this object
  /// lives: mappings are kept, because the same memory comes again and again.
  std::optional<payload> join(const payload_shape& whole,
                              std::span<const payload> parts);

private:
  class window;

  using window_ptr = std::shared_ptr<const window>;
  using addresses = std::vector<const std::byte*>;

  window_ptr find(const addresses& where) const;

  /// Newest last.
  std::deque<std::pair<addresses, window_ptr>> windows_;
};

} // namespace troupe::transport
