#pragma once
// What compression has left out of a worker's gradients so far (error
// feedback); it is added to the next gradient. It belongs to the worker, not to
// one of its links, so that it outlives a lost connection. It is saved with
// each checkpoint in the worker's own run directory, because sending it would
// undo the compression.
//
// A run may continue from an earlier version than it had reached. Files of
// later versions then belong to steps that were rolled back; they are removed
// when the worker begins in the new life of the server.
//
// Shared by a worker's session client and its links; thread-safe.

#include "messages/interfaces.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace troupe {

/// Where error feedback is saved:
///
/// FOLDER/residuals/step-00000100/worker-3.safetensors
///
/// and that of a worker that has left, for the next one with its rank:
///
/// FOLDER/residuals/left/worker-3.safetensors
struct error_feedback_store {
  std::filesystem::path folder; ///< The run directory; empty: not saved.
  uint32_t keep = 3;            ///< Number of newest steps kept per worker.
  std::string run_id;           ///< Files of other runs are ignored.
};

class error_feedback {
public:
  /// Compresses a range of a gradient, given its error feedback `before`
  /// (empty: zeros), and writes the new one to `lost`. Returns false if
  /// `before` cannot be used.
  using pack_function =
    std::function<bool(std::span<const float> before, std::span<float> lost)>;

  /// @param counts Elements of each range: one range for each server that gets
  /// a part of the gradients.
  error_feedback(const std::vector<uint64_t>& counts,
                 error_feedback_store store);

  /// Whether its ranges have these sizes. They never change.
  bool has(const std::vector<uint64_t>& counts) const;

  /// A life of the server begins for this worker: continues from what was saved
  /// at that version, else from zero, and removes its files that do not belong
  /// to the history of that version. A second call for the same life does
  /// nothing.
  void begin(life_number server, version at, worker_id who);

  /// Compresses a range of this gradient.
  void pack(size_t range, const push_id& id, const pack_function& f);

  /// Saves the error feedback as it was after this gradient (`seq` 0: before
  /// the first of a life). Does nothing if there is none, or no folder, or if
  /// the gradient is not one of the last two.
  /// @throws run_error if the file cannot be written.
  void write(version at, const push_id& after);

  /// Saves it for the next worker of this rank in this life of the server, as
  /// it was after this gradient. Does nothing where `write` would not.
  /// @throws run_error if the file cannot be written.
  void hand_over(const push_id& after);

private:
  /// Empty vectors stand for zeros.
  struct range {
    uint64_t count = 0;
    std::vector<float> now, before;
    push_id now_after{}; ///< The gradient after which it holds.
    std::optional<push_id> before_after = push_id{}; ///< Empty: lost.

    const std::vector<float>* after(const push_id& id) const;
  };

  /// A file that this worker may still need.
  struct kept_file {
    uint64_t step = 0;
    std::filesystem::path path;
  };

  uint32_t life();
  std::vector<float> whole_after(const push_id& id);
  std::filesystem::path folder() const;
  std::filesystem::path file(version at, worker_id who) const;
  void read(version at, worker_id who);
  bool take_over(worker_id who);
  bool load(const std::filesystem::path& from);
  bool save(const std::filesystem::path& to, version at, const push_id& after);
  void sort_out(version at, worker_id who);
  void keep(uint64_t step, std::filesystem::path path);

  error_feedback_store store_;
  std::mutex files_;            ///< Locked first, and during a whole write.
  std::vector<kept_file> kept_; ///< Files of this run, by step.
  std::mutex mutex_;            ///< For everything else.
  std::vector<range> ranges_;
  life_number server_{0};
};

/// Removes the saved error feedback of this run, of any worker, at versions
/// later than `after`. To be called before any worker uses the run directory.
void forget_error_feedback(const error_feedback_store& of, version after);

/// `write` as the answer of an actor; null: no error feedback.
caf::result<void>
write_error_feedback(const std::shared_ptr<error_feedback>& feedback,
                     version at, const push_id& after);

} // namespace troupe
