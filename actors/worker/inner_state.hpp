#pragma once
// The state of a worker's own optimiser from one round of local steps to the
// next. It belongs to the worker: it is saved with each checkpoint in the
// worker's own run directory (worker_files.hpp), and lost with a worker that is
// lost.
//
// Each gradient says how many steps the optimiser had made before its round, so
// that a replay can compute it from the same state. Therefore the state is
// always that after the last round whose gradient the server has taken: a round
// that was cancelled or refused leaves no trace.
//
// Shared by a worker and its compute actor; thread-safe.

#include "actors/worker/worker_files.hpp"
#include "messages/ids.hpp"
#include "models/optim/local_steps.hpp"

#include <memory>
#include <mutex>
#include <optional>

namespace troupe {

class inner_state {
public:
  using numbers = std::shared_ptr<const models::inner_numbers>;

  explicit inner_state(worker_store store);

  /// A life of the server begins for this worker at that version: continues
  /// from what was saved there, else with a new optimiser, and says so behind
  /// version 0. A second call for the same life does nothing.
  void begin(life_number server, version at, worker_id who);

  /// The state after this gradient, to which the worker goes back; null: that
  /// of a new optimiser. For a gradient that is neither of the last two: the
  /// state that the life began with.
  numbers go_back_to(const push_id& after);

  /// The state after the round of a gradient that is about to be pushed.
  void keep(const push_id& made, numbers state);

  /// Memory of a state that nobody needs any more, to be filled anew; or null.
  std::shared_ptr<models::inner_numbers> take_spare();

  /// Saves the state as it was after this gradient (`seq` 0: before the first
  /// of a life). Saves nothing if the optimiser has made no step until then, if
  /// no files are kept, or if the gradient is not one of the last two.
  /// @throws run_error if the file cannot be written.
  void write(version at, const push_id& after);

  /// Saves it for the next worker of this rank in this life of the server.
  /// @throws run_error if the file cannot be written.
  void hand_over(const push_id& after);

private:
  struct kept {
    push_id after;
    numbers state;
  };

  const kept* find(const push_id& after) const;
  template <class Write>
  bool save(const push_id& after, Write write);

  std::mutex files_guard_; ///< Locked first, and during a whole write.
  worker_files files_;
  std::mutex mutex_; ///< For everything else.
  life_number server_{0};
  numbers first_; ///< That the life began with.
  std::optional<kept> now_, before_;
  std::shared_ptr<models::inner_numbers> spare_;
};

using inner_state_ptr = std::shared_ptr<inner_state>;

/// `numbers` as they are in a file of this kind.
std::shared_ptr<const models::inner_numbers>
inner_numbers_in(const carried_file& from);

} // namespace troupe
