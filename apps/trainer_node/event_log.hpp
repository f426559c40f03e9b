#pragma once
// A run's event log on disk.

#include "actors/server/parameter_server.hpp"

#include <filesystem>

namespace troupe::app {

/// The first event of a life. `threads`: intra-op threads of its workers.
proto::LogBegin make_log_begin(const parameter_server_parts& parts,
                               int threads);

/// The vector instructions that LibTorch uses here; sums depend on them.
std::string cpu_capability();

/// Begins tape-<life>.pb in `folder`; one of an earlier life of that number is
/// set aside, and `say` told. Throws `run_error`.
event_sink open_event_log(const std::filesystem::path& folder,
                          const parameter_server_parts& parts, int threads,
                          const std::function<void(const std::string&)>& say);

} // namespace troupe::app
