#pragma once
// How Slurm writes lists of nodes and of numbers for nodes. Pure functions; any
// thread.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::config {

/// The nodes that a list names, in its order: "n[01-03,7]-ib,b" is n01-ib,
/// n02-ib, n03-ib, n7-ib and b. Throws `bad_value` for what is no such list, or
/// one of more than 65,536 nodes.
std::vector<std::string> expand_node_list(std::string_view text);

/// The number for node `index` of a list with one for each: "4(x2),3" is 4, 4
/// and 3. Nothing if there is none.
std::optional<uint32_t> number_of_node(std::string_view list, uint32_t index);

} // namespace troupe::config
