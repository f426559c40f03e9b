#pragma once
// Opens the event log of a run on disk. Free functions, called by main when the
// parameter server starts; the sink is then called on the server's thread.

#include "actors/server/parameter_server.hpp"

#include <filesystem>

namespace troupe::app {

/// The first event of a life.
/// @param threads Intra-op threads of its workers.
proto::LogBegin make_log_begin(const parameter_server_parts& parts,
                               int threads);

/// The vector instructions that LibTorch uses here; the results of sums depend
/// on them.
std::string cpu_capability();

/// Creates the event log of a life in `folder` (`recording::event_log_name`).
/// An existing one of an earlier life with that number is renamed, and `say` is
/// told. Throws `run_error`.
event_sink open_event_log(const std::filesystem::path& folder,
                          const parameter_server_parts& parts, int threads,
                          const std::function<void(const std::string&)>& say);

} // namespace troupe::app
