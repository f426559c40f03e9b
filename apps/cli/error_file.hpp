#pragma once
// For launchers in the manner of TorchElastic: why a process failed, in the
// file that TORCHELASTIC_ERROR_FILE names. Any thread.

#include <string>

namespace troupe::app {

/// Writes the file, if one is wanted and there is none yet: of several failures
/// of a process the first one counts.
void write_error_file(const std::string& line);

} // namespace troupe::app
