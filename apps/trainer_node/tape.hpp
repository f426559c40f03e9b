#pragma once
// A run's event tape on disk.

#include "actors/server/parameter_server.hpp"

#include <filesystem>

namespace troupe::app {

/// The first event of a life. `threads`: intra-op threads of its workers.
proto::TapeBegin make_tape_begin(const parameter_server_parts& parts,
                                 int threads);

/// The vector instructions that LibTorch uses here; sums depend on them.
std::string cpu_capability();

/// Begins tape-<life>.pb in `folder`; one of an earlier life of that number is
/// set aside, and `say` told. Throws `run_error`.
tape_sink open_tape(const std::filesystem::path& folder,
                    const parameter_server_parts& parts, int threads,
                    const std::function<void(const std::string&)>& say);

} // namespace troupe::app
