#pragma once
// Asks the workers of a cluster, before its parameter server exists, what
// bfloat16 does to their speed (`--autocast auto`). Stands where the admission
// will stand: all who say hello are told to come again, and workers to measure
// first.
//
// `bfloat16_answers` is shared by the actor and by the thread that waits for
// them, and is thread-safe; the rule is a pure function.

#include "config/runs/description.hpp"
#include "messages/interfaces.hpp"

#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// What the workers have answered so far.
class bfloat16_answers {
public:
  using clock = std::chrono::steady_clock;

  /// A worker has said hello, perhaps with its gain. Its name is unique.
  void heard(const std::string& worker, std::optional<double> gain,
             clock::time_point now);

  /// All gains that are known, in the order of the names.
  std::vector<double> gains() const;

  /// Seconds since the first worker's hello; 0 before it.
  double age(clock::time_point now) const;

private:
  mutable std::mutex mutex_;
  std::map<std::string, double> gains_;
  std::optional<clock::time_point> first_;
};

/// Only above this gain is bfloat16 worth its rounding.
inline constexpr double least_bfloat16_gain = 1.05;

/// bf16, if each worker that was asked is faster with it: one that is slower
/// would hold up the others. `none` if no worker has answered.
config::autocast_kind autocast_for(const std::vector<double>& gains);

struct bfloat16_survey_parts {
  config::run_description description; ///< Of the run, still undecided.
  std::shared_ptr<bfloat16_answers> answers;
};

class bfloat16_survey_state {
public:
  using pointer = admission_actor::stateful_pointer<bfloat16_survey_state>;

  static constexpr const char* name = "troupe.bfloat16-survey";

  bfloat16_survey_state(pointer self, bfloat16_survey_parts parts);

  admission_actor::behavior_type make_behavior();

private:
  std::string meet(const std::string& bytes);

  pointer self_;
  bfloat16_survey_parts parts_;
};

} // namespace troupe
