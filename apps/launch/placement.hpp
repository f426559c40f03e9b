#pragma once
// Which host of a launch gets which process. Pure.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace troupe::app {

/// For each worker the number of its host. Hosts get one in turn, until each
/// has as many processes as slots; then the turns begin anew. The server, if
/// there is one, takes a slot of the first host.
std::vector<size_t> place_workers(std::span<const uint32_t> slots,
                                  size_t workers, bool with_server);

} // namespace troupe::app
