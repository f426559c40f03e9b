#pragma once
// What the parts of the parameter server ask of it and tell it. A part is made
// from the lead and from what the part works on, and knows nothing else of the
// server: docs/design/0018-server-events.md says which part does what.
//
// Implemented by the parameter server; called on its thread, by its parts.

#include "actors/core/step_scheduler.hpp"
#include "actors/recording/notes.hpp"
#include "actors/weights/snapshot.hpp"
#include "messages/interfaces.hpp"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// Takes what is to be recorded of a run.
class note_sink {
public:
  virtual ~note_sink() = default;

  /// s on the run's clock.
  virtual double elapsed() const = 0;

  virtual void record(const note_ptr& what_happened) = 0;
};

/// A worker that is a member, and its last gradient that was applied or
/// dropped.
struct served_worker {
  worker_actor handle;
  sequence settled;
};

/// A gradient that its worker was expected to push.
struct arrived_push {
  push_header header;
  payload gradient;
  /// Its leases, in their order; nothing unless its worker has all of them, and
  /// they have as many samples as it says.
  std::optional<std::vector<lease>> from;
  /// If norms are watched, and the gradient is sound.
  std::optional<cores::judged_norm> norm{};
  uint32_t fragment = 0; ///< Of the weights, that it is of.
};

class lead : public note_sink {
public:
  /// The newest version whose steps are made.
  virtual version newest() const = 0;

  // -- requests of workers (worker_requests) ----------------------------------

  /// Whether the steps of a decision are still being made. Requests wait then.
  virtual bool makes_steps() const = 0;

  /// Does this work; the run fails if it throws.
  virtual void attempt(const std::function<void()>& work) = 0;

  /// A sound gradient, of leases that its worker has.
  virtual void push_arrived(const arrived_push& push) = 0;

  /// A gradient that cannot be used. @param reason For people.
  virtual void push_refused(const arrived_push& push, errc why,
                            const std::string& reason) = 0;

  virtual void pull_arrived(const pull_header& header) = 0;

  // -- steps (step_pipeline) --------------------------------------------------

  /// This gradient is dropped, or (true) it is in the weights.
  virtual void push_settled(const push_id& id, bool applied) = 0;

  /// The other shards know all steps of the decision, and the lead is yet to
  /// make its own part of the last: answers may be ordered there.
  virtual void steps_ordered(const cores::orders& decided) = 0;

  /// All steps of a decision are made: the versions after `before` up to
  /// `made`, which is published. Not called for a decision without steps.
  virtual void versions_made(version before, version made) = 0;

  /// The decision is carried out, except that nobody is answered yet.
  virtual void decision_done(const cores::orders& decided) = 0;

  /// The same, after the call that led to it.
  virtual void attempt_later(const std::function<void()>& work) = 0;

  // -- checkpoints (checkpoint_schedule) --------------------------------------

  /// Fills in which checkpoints stay, and of the manifest all but weights,
  /// optimiser and files.
  virtual void describe(snapshot& out) const = 0;

  virtual std::vector<served_worker> workers() const = 0;

  /// The complete state of a version is in memory, or in its files.
  virtual void state_collected(const snapshot& state) = 0;

  /// A checkpoint or the best weights are durable. @param name Of the files.
  virtual void state_saved(const snapshot& state, const std::string& name) = 0;

  virtual void saving_failed(const std::string& line) = 0;

  /// Nothing is being collected or written.
  virtual void saving_is_idle() = 0;

  // -- the end (run_ending) ---------------------------------------------------

  /// Tells all workers that training is over, for this reason.
  virtual void stop_workers(const std::string& reason) = 0;

  /// Asks for the last score and the last checkpoint.
  virtual void finish_work() = 0;

  virtual void give_up_saving() = 0;

  /// Writes the summary; once.
  virtual void close_run() = 0;
};

} // namespace troupe
