#pragma once
// NCCL as a kind of path: from the memory of one GPU to that of another. Pure
// functions, except that they make the ends of paths.

#include "messages/transport/wire/path_row.hpp"

namespace troupe::transport {

/// The row of this kind of path (path_row.hpp).
path_row nccl_row();

} // namespace troupe::transport
