#pragma once
// `trainer_node checkpoint`: lists, shows, verifies and exports the weights
// that runs leave. Only `export` writes, and only the file that it was asked
// for. Called by main; not thread-safe for the same output.

#include "apps/checkpoint/places.hpp"
#include "config/text/failure.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace troupe::app {

/// Runs the command with the arguments after `checkpoint`. Throws `failure`.
exit_status checkpoint_verb(const std::vector<std::string>& arguments);

/// Prints a line for each checkpoint: step, time, size and score.
void list_checkpoints(const weights_place& at);

/// Prints what a checkpoint is: the run, its settings and counts.
void show_checkpoint(const weights_place& at);

/// Reads every byte of all checkpoints, best weights and error feedback, and
/// prints a line for each. Throws `run_error` if something is damaged.
void verify_checkpoints(const weights_place& at);

enum class weights_format : uint8_t { safetensors, torch };

/// Writes the weights of the newest valid checkpoint, or the best ones, to
/// `out`; if that is empty, to NETWORK-step-N in the working directory.
/// Replaces the file in one step. Returns its path. Throws `run_error`.
std::filesystem::path export_weights(const weights_place& at, bool best,
                                     weights_format format,
                                     std::filesystem::path out);

} // namespace troupe::app
