#pragma once
// The run directory: which folder a run writes, and when it may.
//
// Absent or without a run: fine. One that holds a run (config.ini,
// metrics.jsonl, summary.json or checkpoints/) needs `resume` or `overwrite`.
// No folder given: the next free runs/<network>-<n>. Only the node that writes
// the directory, the parameter server or a simulation, calls this.

#include "config/sources/run_lock.hpp"
#include "config/text/settings.hpp"

#include <filesystem>
#include <memory>

namespace troupe::config {

struct run_directory {
  std::filesystem::path path;
  /// It holds an earlier run that `resume` goes on with: its files are added
  /// to, not begun anew. Whether there is a checkpoint to start from is for
  /// the checkpoint reader to say.
  bool continues = false;
  /// It holds an earlier run that is to be removed once the new one can start:
  /// by `remove_run`.
  bool overwrites = false;
  /// Held for the life of the run.
  std::shared_ptr<const run_lock> lock;
};

/// Whether an earlier run has left its files in `folder`.
bool holds_run(const std::filesystem::path& folder);

/// Removes the files that Troupe writes into a run directory, and folders that
/// are empty then. Whatever else there is stays. Throws `run_error`.
void remove_run(const std::filesystem::path& folder);

/// Makes the folder where needed and locks it. Throws `usage_error` when the
/// settings forbid the folder, `run_error` when the system does or another
/// process has a run there. Below `root` are relative paths; the working
/// directory when it is empty. `held`: the lock of the folder, when this
/// process has it already.
run_directory open_run_directory(const training_settings& training,
                                 const std::filesystem::path& root = {},
                                 std::shared_ptr<const run_lock> held = {});

} // namespace troupe::config
