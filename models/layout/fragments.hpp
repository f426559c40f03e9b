#pragma once
// The fragments of a network: parts of its flat buffer that workers with local
// steps exchange in turn (Douillard et al. 2025, "Streaming DiLoCo with
// overlapping communication", arXiv:2501.18512, section 2.2). An immutable
// value; any thread.

#include "models/layout/flat_layout.hpp"
#include "models/layout/shard_cuts.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace troupe::models {

class fragments {
public:
  /// So many, about equally large, each of whole parameters that lie side by
  /// side.
  /// @throws usage_error if there are more than parameters.
  fragments(const flat_layout& layout, uint32_t count);

  /// Those of a buffer without statistics, of these sizes.
  explicit fragments(std::span<const uint64_t> sizes);

  /// The same fragments of a part of the buffer, whose elements are counted
  /// from its first one; some may be empty.
  /// @param part Ends with the parameters, or with the statistics; or has
  /// none of these.
  fragments within(const element_range& part) const;

  uint32_t count() const { return static_cast<uint32_t>(ranges_.size()); }

  /// The elements of a fragment's parameters.
  const element_range& parameters(uint32_t which) const {
    return ranges_.at(which);
  }

  /// What is exchanged of a fragment: the last one has the running statistics,
  /// too, which lie behind its parameters.
  element_range all(uint32_t which) const {
    auto out = ranges_.at(which);
    if (has_statistics(which))
      out.count += statistics_;
    return out;
  }

  bool has_statistics(uint32_t which) const { return which + 1 == count(); }

  /// The elements that are exchanged of each fragment.
  std::vector<uint64_t> sizes() const;

  /// The fragment whose turn was before this one's.
  uint32_t before(uint32_t which) const {
    return (which + count() - 1) % count();
  }

private:
  fragments() = default;

  std::vector<element_range> ranges_;
  uint64_t statistics_ = 0;
};

} // namespace troupe::models
