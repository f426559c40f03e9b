#pragma once
// Checkpoints: folders `step-00000100` with a manifest and two tensor files.
// A checkpoint is written under a temporary name, synced and renamed, so that
// it exists completely or not at all, even if the process or the machine dies.
// A reader verifies size and checksum of every file before it uses any.
//
// `dir` is the folder that holds the checkpoints (`<run>/checkpoints`). It has
// one writer at a time; other processes may read. Errors are `run_error`s:
// one line with the path and what is wrong or what the system said.

#include "messages/proto/manifest.pb.h"
#include "models/storage/safetensors.hpp"
#include "models/storage/stored_tensors.hpp"
#include "models/storage/tensor_draft.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::models {

/// The version of the manifest that this release writes and reads.
inline constexpr uint32_t checkpoint_format = 1;

/// Ranks of workers are below this in every manifest.
inline constexpr uint32_t most_ranks = 1u << 20;

/// A checkpoint, verified. Move-only; has the weights in memory and the
/// optimiser's state, which is larger, on the disk.
struct loaded_checkpoint {
  std::filesystem::path path;
  proto::Manifest manifest;
  tensor_file model;        ///< Keys of the state dict.
  stored_tensors optimizer; ///< Keys `optim.<slot>.<parameter>`.
};

/// A checkpoint known only by its name: its content has not been read.
struct checkpoint_entry {
  uint64_t step = 0;
  std::filesystem::path path;
};

/// Takes one line for the user, for example why a checkpoint was skipped.
using line_sink = std::function<void(const std::string& line)>;

/// `step-00000100`
std::string checkpoint_name(uint64_t step);

/// `optim.<slot>.<parameter>`, for example
/// `optim.momentum_buffer.conv1.weight`.
std::string slot_key(std::string_view slot, std::string_view parameter);

/// What a checkpoint holds beside its manifest.
struct checkpoint_tensors {
  std::span<const named_tensor> weights;
  std::span<const named_tensor> slots;
  /// Further names of weights, each with the one under which the tensor is
  /// there (see `with_other_names`).
  tensor_metadata other_names = {};
};

/// Writes a checkpoint of `manifest.step()`, replacing one of the same step.
/// Sets the manifest's format version, files and checksum; the caller fills in
/// the rest. `dir` is created if absent. When this throws, nothing is left
/// behind. Returns the path of the checkpoint, which is then durable.
/// @param permit Called when all is written, before the checkpoint gets its
/// name; throws `run_error` if it must not; may be empty.
std::filesystem::path
write_checkpoint(const std::filesystem::path& dir, proto::Manifest manifest,
                 const checkpoint_tensors& tensors,
                 const std::function<void()>& permit = {});

/// Gives the checkpoint in `folder` this manifest, which lists its files, in
/// one step: after a crash it has the old one or the new one, and after the
/// return the new one is durable.
void replace_manifest(const std::filesystem::path& folder,
                      proto::Manifest manifest);

/// The tensor files of a checkpoint in `dir` whose bytes come in pieces.
struct checkpoint_drafts {
  /// The bytes of these tensors are not looked at.
  checkpoint_drafts(const std::filesystem::path& dir,
                    std::span<const named_tensor> weights,
                    std::span<const named_tensor> slots,
                    const tensor_metadata& other_names = {});

  tensor_draft model;
  tensor_draft optimizer;
};

/// The same with such files, which are moved into the checkpoint.
std::filesystem::path
write_checkpoint(const std::filesystem::path& dir, proto::Manifest manifest,
                 checkpoint_drafts& of,
                 const std::function<void()>& permit = {});

/// The tensors of a file, those with several names under each of them: further
/// names are in its metadata, as the safetensors library writes tied weights.
/// Views of the file.
std::vector<named_tensor> with_other_names(const tensor_file& file);

/// What is read of a checkpoint, and verified. Without the optimiser a run
/// cannot go on, but its weights can be scored or exported.
enum class checkpoint_content : uint8_t { all, weights };

/// Reads and verifies the checkpoint folder `path`.
loaded_checkpoint
read_checkpoint(const std::filesystem::path& path,
                checkpoint_content content = checkpoint_content::all);

/// Reads and verifies the manifest and the sizes of the other files, not their
/// content: cheap, for tools and for `--check`.
proto::Manifest read_manifest(const std::filesystem::path& path);

/// All checkpoints in `dir`, the oldest step first; empty when there is no such
/// folder.
std::vector<checkpoint_entry>
list_checkpoints(const std::filesystem::path& dir);

/// The newest checkpoint in `dir` that verifies. Reports in one line for each
/// newer one why it was skipped.
std::optional<loaded_checkpoint>
newest_valid(const std::filesystem::path& dir, const line_sink& on_skip,
             checkpoint_content content = checkpoint_content::all);

/// What `--resume PATH` may name: a checkpoint, a folder of checkpoints or a
/// run directory (the newest valid one counts). Throws when there is none.
loaded_checkpoint
find_checkpoint(const std::filesystem::path& path, const line_sink& on_skip,
                checkpoint_content content = checkpoint_content::all);

/// The checkpoints in `dir` that a run has abandoned, in the order in which
/// they were written (see `set_aside_newer`).
std::vector<std::filesystem::path>
list_abandoned(const std::filesystem::path& dir);

/// Removes all but the `keep` newest checkpoints (at least one is kept) and
/// those of the steps that `stay`; and all but the `keep` newest of those that
/// were abandoned.
void prune(const std::filesystem::path& dir, size_t keep,
           std::span<const uint64_t> stay = {});

/// Renames the checkpoints after `step` to `abandoned-step-...`: a run that
/// continues from an older one must not find them; `prune` counts them apart.
/// Reports each in one line.
void set_aside_newer(const std::filesystem::path& dir, uint64_t step,
                     const line_sink& on_line);

/// Removes what a killed writer left under temporary names, and restores a
/// checkpoint that was about to be replaced. To be called once, before the
/// first write. Returns how many were removed.
size_t remove_leftovers(const std::filesystem::path& dir);

} // namespace troupe::models
