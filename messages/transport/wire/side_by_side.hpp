#pragma once
// Parts of a tensor that lie in memory of several processes, seen as one tensor
// without a copy: their pages are mapped a second time, next to each other.
//
// Not thread-safe; one owner. What it hands out may outlive it.

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
  /// All parts in their order, held until the tensor is let go of. Nothing when
  /// they cannot be mapped so: memory that is not shared, or parts that do not
  /// begin with a page, or whose next does not.
  ///
  /// @pre Memory of parts stays mapped where it is as long as this lives: it
  /// remembers what it has mapped, since the same memory comes again and again.
  std::optional<payload> join(const payload_shape& whole,
                              std::span<const payload> parts);

private:
  class window;

  using window_ptr = std::shared_ptr<const window>;
  using addresses = std::vector<const std::byte*>;

  window_ptr find(const addresses& where) const;

  /// The newest last.
  std::deque<std::pair<addresses, window_ptr>> windows_;
};

} // namespace troupe::transport
