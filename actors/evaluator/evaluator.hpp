#pragma once
// The evaluator: takes the newest version that is due, has it scored, reports.
// While its scorer computes, newer versions pass by: it never queues.

#include "messages/interfaces.hpp"

#include <optional>

namespace troupe {

struct evaluator_parts {
  scorer_actor scorer;
  session_client_actor home; ///< Gets this evaluator its link.
};

class evaluator_state {
public:
  using pointer = evaluator_actor::stateful_pointer<evaluator_state>;

  static constexpr const char* name = "troupe.evaluator";

  evaluator_state(pointer self, evaluator_parts parts);

  evaluator_actor::behavior_type make_behavior();

private:
  /// So many errors that an evaluator does not understand, without a version
  /// between them, are no chance.
  static constexpr uint32_t most_unknown = 5;

  void attach(const parameter_server_actor& link);
  void detach();
  void leave(const run_end& how);
  void watch();
  void take_refusal(const caf::error& why);
  void evaluate(const watch_header& what, const payload& weights);

  pointer self_;
  evaluator_parts parts_;
  std::optional<parameter_server_actor> link_;
  uint64_t attachments_ = 0; ///< Answers to earlier ones are ignored.
  uint32_t unknown_ = 0;     ///< Errors in a row that say nothing to it.
  version seen_{0};
};

} // namespace troupe
