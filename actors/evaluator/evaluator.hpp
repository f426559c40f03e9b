#pragma once
// The evaluator: takes the newest version that is due, has it scored, and
// reports the result, with that of the average of these weights if there is
// one. While its scorer computes, it skips newer versions: it never builds up a
// queue.
//
// An actor; its session client makes it, and its scorer has a thread of its
// own.

#include "actors/runtime/last_weights.hpp"
#include "messages/interfaces.hpp"

#include <functional>
#include <optional>

namespace troupe {

struct evaluator_parts {
  scorer_actor scorer;
  session_client_actor session; ///< Gets this evaluator its link.
  last_weights last{}; ///< Who takes the weights that the run ends with.
};

class evaluator_state {
public:
  using pointer = evaluator_actor::stateful_pointer<evaluator_state>;

  static constexpr const char* name = "troupe.evaluator";

  evaluator_state(pointer self, evaluator_parts parts);

  evaluator_actor::behavior_type make_behavior();

private:
  /// After this many errors of unknown kind without a version in between, the
  /// evaluator gives up: they are no coincidence.
  static constexpr uint32_t most_unknown = 5;

  void attach(const parameter_server_actor& link);
  void detach();
  void stop(const run_end& how);
  void leave(const run_end& how);
  void watch();
  void take_refusal(const caf::error& why);
  void evaluate(const watch_header& header, const payload& weights);
  void score_weights(version number, const payload& weights, bool of_average,
                     std::function<void(const score&)> then);
  void ask_for_average(const watch_header& header, const score& found);
  void report(const watch_header& header, const score& found);

  pointer self_;
  evaluator_parts parts_;
  std::optional<parameter_server_actor> link_;
  uint64_t attachments_ = 0; ///< Answers to earlier ones are ignored.
  uint32_t unknown_ = 0;     ///< Errors of unknown kind, in a row.
  version seen_{0};
  bool stopped_ = false; ///< The run is over.
};

} // namespace troupe
