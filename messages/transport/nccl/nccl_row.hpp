#pragma once
// NCCL as a kind of path: what settings know of it, and which of its two forms
// two nodes get. Pure but for the ends that it makes.

#include "messages/transport/nccl/library/library.hpp"
#include "messages/transport/wire/path_row.hpp"

namespace troupe::transport {

/// What the others need to know of it.
path_row nccl_row();

/// The device of a worker's process, or of a server's: the one that was chosen
/// for it; else, with both in one process, different ones where there are two.
int nccl_device(const nccl::library& lib, bool of_worker);

} // namespace troupe::transport
