#pragma once
// Chooses and opens the run directory, the folder to which a run writes.
//
// An absent folder, or one without a run, is accepted. One that holds a run
// (config.ini, metrics.jsonl, summary.json or checkpoints/) needs `resume` or
// `overwrite`, unless the run made no update: then it is overwritten, provided
// that nothing but its own files would be removed. If no folder is given, the
// next free runs/<network>-<n> is taken. Called by main's thread, only on the
// node that writes the directory: the parameter server or a simulation.

#include "config/run_folder/run_lock.hpp"
#include "config/text/settings.hpp"

#include <filesystem>
#include <memory>
#include <optional>

namespace troupe::config {

struct run_directory {
  std::filesystem::path path;
  /// It holds an earlier run that `resume` continues: new lines are appended to
  /// its files. The checkpoint reader decides whether there is a checkpoint to
  /// start from.
  bool continues = false;
  /// It holds an earlier run that `remove_run` is to remove once the new run
  /// can start: `overwrite` is set, or it made no update.
  bool overwrites = false;
  /// Held for the life of the run.
  std::shared_ptr<const run_lock> lock;
};

/// Throws `usage_error` unless what `resume` names is a folder.
void require_resumable(const training_settings& training,
                       const std::filesystem::path& root = {});

/// Whether an earlier run has left its files in `folder`.
bool holds_run(const std::filesystem::path& folder);

/// The folder in a run directory for the file that describes the network, where
/// it is only described (`weights:FILE`).
inline constexpr const char* described_folder = "described";

/// That file; nothing if the run has none.
std::optional<std::filesystem::path>
kept_description(const std::filesystem::path& folder);

/// Makes the next free `runs/<network>-<n>`, as for a run without a train-dir.
/// Throws `run_error`.
std::filesystem::path make_run_folder(const std::string& network,
                                      const std::filesystem::path& root = {});

/// The same for the scores of weights: `runs/<network>-scores-<n>`.
std::filesystem::path make_score_folder(const std::string& network,
                                        const std::filesystem::path& root = {});

/// Removes the files that Troupe writes into a run directory, and folders that
/// become empty. Other files stay. Throws `run_error`.
void remove_run(const std::filesystem::path& folder);

/// Creates the folder if needed and locks it. Throws `usage_error` when the
/// settings do not allow the folder, `run_error` when the system does not or
/// another process uses it. Relative paths are below `root`, or the working
/// directory if that is empty. `held`: the folder's lock, if this process
/// already has it.
run_directory open_run_directory(const training_settings& training,
                                 const std::filesystem::path& root = {},
                                 std::shared_ptr<const run_lock> held = {});

} // namespace troupe::config
