#pragma once
// The files in which a worker saves what it carries from one gradient to the
// next, in its own run directory, with each checkpoint of the run:
//
// FOLDER/KIND/step-00000100/worker-3.safetensors
//
// and that of a worker that has left, for the next one with its rank:
//
// FOLDER/KIND/left/worker-3.safetensors
//
// A run may continue from an earlier version than it had reached. Files of
// later versions then belong to steps that were rolled back; they are removed
// when the worker begins in the new life of the server.
//
// A member of what is saved, which locks; not thread-safe.

#include "messages/ids.hpp"
#include "models/storage/safetensors.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace troupe {

/// Where the workers of a process save what they carry.
struct worker_store {
  std::filesystem::path folder{}; ///< The run directory; empty: not saved.
  uint32_t keep = 3;              ///< Number of newest steps kept per worker.
  std::string run_id{};           ///< Files of other runs are ignored.
};

/// Where a worker saves what it carries with the checkpoint of a version.
/// @param kind The folder's name.
std::filesystem::path carried_path(const std::filesystem::path& run,
                                   const char* kind, version at, worker_id who);

/// A file that a worker goes on from.
struct carried_file {
  std::filesystem::path path;
  models::tensor_file content;
  bool was_left = false; ///< By a worker that has left in this life.
};

class worker_files {
public:
  /// @param kind The folder's name.
  worker_files(const char* kind, worker_store store);

  bool are_kept() const { return !store_.folder.empty(); }

  void set_run(std::string run_id) { store_.run_id = std::move(run_id); }

  /// A life of the server begins for this worker at that version. Removes the
  /// worker's files that do not belong to its history, and returns the one to
  /// continue from, if there is one. What a worker has left in this life of the
  /// server is newer than that of the version; it counts once.
  /// @throws run_error if that file cannot be read.
  std::optional<carried_file> begin(life_number server, version at,
                                    worker_id who);

  /// Writes the file of a version, and removes the oldest if there are too many
  /// steps.
  /// @throws run_error if it cannot be written.
  void write(version at, worker_id who,
             std::span<const models::named_tensor> tensors,
             models::tensor_metadata about);

  /// Writes that of a worker that leaves, and returns where it is.
  /// @throws run_error if it cannot be written.
  std::filesystem::path
  write_left(worker_id who, std::span<const models::named_tensor> tensors,
             models::tensor_metadata about);

private:
  /// A file that this worker may still need.
  struct kept_file {
    uint64_t step = 0;
    std::filesystem::path path;
  };

  std::filesystem::path folder() const;
  std::filesystem::path file(version at, worker_id who) const;
  std::filesystem::path left(worker_id who) const;
  std::optional<carried_file> read(const std::filesystem::path& path) const;
  void write(const std::filesystem::path& to, version at, worker_id who,
             std::span<const models::named_tensor> tensors,
             models::tensor_metadata about) const;
  void sort_out(version at, worker_id who);
  void keep(uint64_t step, std::filesystem::path path);

  const char* kind_;
  worker_store store_;
  life_number server_{0};
  std::vector<kept_file> kept_; ///< Files of this run, by step.
};

/// Removes the files of this run, of any worker and of all kinds, at versions
/// later than `after`. To be called before any worker uses the run directory.
void forget_carried(const worker_store& of, version after);

/// The kinds of files that there are.
inline constexpr const char* residuals_kind = "residuals";
inline constexpr const char* inner_optimizer_kind = "inner-optimizer";

} // namespace troupe
