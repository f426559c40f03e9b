#pragma once
// Stands in the place of an evaluator's scorer where another process scores
// (`--compute external`): hands it one version of the weights at a time, in
// memory that both have mapped, and takes its metrics.

#include "actors/user_process/user_process_state.hpp"

#include <deque>
#include <optional>

namespace troupe {

class external_scorer_state : public user_process_state {
public:
  using pointer =
    external_scorer_actor::stateful_pointer<external_scorer_state>;

  static constexpr const char* name = "troupe.external-scorer";

  external_scorer_state(pointer self, user_process_parts parts);

  external_scorer_actor::behavior_type make_behavior();

private:
  /// A version that the process scores. Until it has, it may use this memory.
  struct job {
    version what;
    payload weights;
    bool of_average; ///< They are the average of the version's weights.
    caf::typed_response_promise<score> asks;
    run_clock clock;
  };

  caf::result<score> begin(version number, const payload& weights,
                           bool of_average);
  void begin_next();
  void handle_frame(external::process_frame_kind kind, uint64_t number,
                    const std::string& body);
  void take_score(const std::string& body);
  void finish(caf::expected<score> found);
  void check_time();
  void fail_requests() override;

  pointer self_;
  std::optional<job> job_;
  std::deque<job> waiting_; ///< Until `job_` is done.
};

/// Spawns the scorer and the reader of its frames.
external_scorer_actor make_external_scorer(caf::actor_system& system,
                                           user_process_parts parts);

} // namespace troupe
