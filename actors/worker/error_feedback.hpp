#pragma once
// What compression has left out of a worker's gradients so far (error
// feedback); it is added to the next gradient. It belongs to the worker, not to
// one of its links, so that it outlives a lost connection. It is saved with
// each checkpoint in the worker's own run directory (worker_files.hpp), because
// sending it would undo the compression.
//
// Shared by a worker's session client and its links; thread-safe.

#include "actors/worker/worker_files.hpp"
#include "messages/interfaces.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

namespace troupe {

class error_feedback {
public:
  /// Compresses a range of a gradient, given its error feedback `before`
  /// (empty: zeros), and writes the new one to `lost`. Returns false if
  /// `before` cannot be used.
  using pack_function =
    std::function<bool(std::span<const float> before, std::span<float> lost)>;

  /// @param counts Elements of each range: one range for each fragment of each
  /// server that gets a part of the gradients.
  error_feedback(const std::vector<uint64_t>& counts, worker_store store);

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
  /// the first of a life). Saves nothing if nothing was left out until then, if
  /// no files are kept, or if the gradient is not one of the last two.
  /// @throws run_error if the file cannot be written.
  void write(version at, const push_id& after);

  /// Saves it for the next worker of this rank in this life of the server, as
  /// it was after this gradient. Saves nothing where `write` would not.
  /// @throws run_error if the file cannot be written.
  void hand_over(const push_id& after);

private:
  /// Empty vectors stand for zeros.
  struct range {
    uint64_t count = 0;
    std::vector<float> now, before;
    push_id now_after{}; ///< The gradient from which on it holds.
    std::optional<push_id> before_after = push_id{}; ///< Empty: lost.

    const std::vector<float>* after(const push_id& id) const;
  };

  std::vector<float> whole_after(const push_id& id);
  void load(const carried_file& from);
  template <class Write>
  bool save(const push_id& after, Write write);

  std::mutex files_guard_; ///< Locked first, and during a whole write.
  worker_files files_;
  std::mutex mutex_; ///< For everything else.
  std::vector<range> ranges_;
  life_number server_{0};
};

/// `write` as the answer of an actor; null: no error feedback.
caf::result<void>
write_error_feedback(const std::shared_ptr<error_feedback>& feedback,
                     version at, const push_id& after);

} // namespace troupe
