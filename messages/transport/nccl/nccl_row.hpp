#pragma once
// NCCL as a kind of path: what settings know of it, and which of its two forms
// two nodes get. Pure functions, except that they make the ends of paths.

#include "messages/transport/nccl/library/library.hpp"
#include "messages/transport/wire/path_row.hpp"

namespace troupe::transport {

/// The row of this kind of path (path_row.hpp).
path_row nccl_row();

/// The device that a worker or a server uses: the one that was chosen for its
/// process. Without a choice the server takes the first, and a worker the
/// second where there are two, because both may be in one process.
int nccl_device(const nccl::library& lib, bool of_worker);

} // namespace troupe::transport
