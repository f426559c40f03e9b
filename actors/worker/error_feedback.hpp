#pragma once
// What compression has left out of a worker's gradients so far (error
// feedback): it is added to the next one. It belongs to the worker, not to a
// link of it, so that it outlives a lost connection; and it is made durable
// with each checkpoint, in the worker's own run directory, since to send it
// would undo what compression is for.
//
// A run may go on from an earlier version than it had reached. What a worker
// left at later ones then belongs to a history that never was: those files go
// when the worker begins in the new life of the server.
//
// Thread-safe, all of it.

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

/// Where error feedback outlive a process:
/// FOLDER/residuals/step-00000100/worker-3.safetensors
struct error_feedback_store {
  std::filesystem::path folder; ///< The run directory; empty: nowhere.
  uint32_t keep = 3;            ///< Newest steps that a worker keeps.
  std::string run_id;           ///< Files of other runs are not used.
};

class error_feedback {
public:
  /// Packs a range of a gradient, whose error feedback is `before` (empty:
  /// zeros), and leaves what is lost in `lost`; false if that cannot be used.
  using pack_function =
    std::function<bool(std::span<const float> before, std::span<float> lost)>;

  /// @param counts Numbers of each range: one for each server that gets a part
  /// of the gradients.
  error_feedback(std::vector<uint64_t> counts, error_feedback_store store);

  /// Whether it is cut like that. The cut never changes.
  bool has(const std::vector<uint64_t>& counts) const;

  /// A life of the server begins for this worker: goes on from what was kept at
  /// that version, else from zero, and removes those of its files that are not
  /// known to belong to the history of that version. Nothing happens the next
  /// time.
  void begin(incarnation server, version at, worker_id who);

  /// Packs a range of this gradient.
  void pack(size_t range, const push_id& id, const pack_function& f);

  /// Makes durable what it was after this gradient (`seq` 0: before the first
  /// of a life). Nothing happens if there is nothing left out, or no folder, or
  /// if that gradient is not one of the last two.
  /// @throws run_error if the file cannot be written.
  void write(version at, const push_id& after);

private:
  /// Empty vectors stand for zeros.
  struct range {
    uint64_t count = 0;
    std::vector<float> now, before;
    push_id now_after{}; ///< The gradient that left it.
    std::optional<push_id> before_after = push_id{}; ///< None: it is lost.

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
  void sort_out(version at, worker_id who);
  void keep(uint64_t step, std::filesystem::path path);

  error_feedback_store store_;
  std::mutex files_; ///< First of the two; for as long as a write takes.
  std::vector<kept_file> kept_; ///< Of this run, by step.
  std::mutex mutex_;            ///< For the rest.
  std::vector<range> ranges_;
  incarnation server_{0};
};

/// Removes the error feedback of this run, whoever left them, that are of later
/// versions than the one from which it goes on. For a run directory in which no
/// worker is at work yet.
void forget_error_feedback(const error_feedback_store& of, version after);

/// The same as the answer of an actor; null stands for no error feedback.
caf::result<void>
write_error_feedback(const std::shared_ptr<error_feedback>& what, version at,
                     const push_id& after);

} // namespace troupe
