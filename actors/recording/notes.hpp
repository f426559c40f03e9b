#pragma once
// The notes that the parameter server sends to the recorder, one for each thing
// that happened. Plain values, immutable once sent; never sent to another
// process.

#include "actors/core/step_scheduler.hpp"
#include "actors/recording/metrics_log.hpp"
#include "actors/recording/progress.hpp"
#include "actors/recording/summary.hpp"
#include "messages/types.hpp"

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace troupe {

namespace notes {

struct started {
  std::string run_id;
  std::string policy;
};

struct resumed {
  life_number server;
  std::vector<config::change> changes; ///< Made by this start.
};

struct update {
  double loss = 0;
  double epoch = 0;
  double lr = 0;
  uint64_t samples = 0;
  std::vector<recording::applied_gradient> gradients;
  config::metrics metrics;       ///< Besides the loss, if workers send them.
  double samples_per_second = 0; ///< Since the run began.
  /// For the progress line; present only when it is due.
  std::optional<recording::progress_figures> progress;
};

struct evaluation {
  score found;
};

struct joined {
  worker_id who;
  life_number life;
};

struct left {
  worker_id who;
  life_number life;
  std::string reason;
};

/// The first gradient of this life of the worker is in the weights. Only for
/// who has started the server.
struct first_gradient {
  worker_id who;
};

/// The number of workers has changed, where it varies.
struct members {
  cores::members_order now;
  std::optional<double> momentum; ///< Of the next steps, if it varies, too.
  uint32_t missing = 0;           ///< Of a run that pauses.
  std::vector<worker_id> absent;  ///< Who has left and not come back.
};

/// The run goes on with this policy.
struct policy_changed {
  std::string policy;
  std::optional<double> momentum; ///< If it has changed, too.
};

struct dropped {
  worker_id who;
  uint64_t staleness = 0;
  uint64_t samples = 0;
};

struct cancelled {
  worker_id who;
};

struct refused {
  worker_id who;
  std::string reason;
  std::optional<cores::judged_norm> norm{}; ///< Of an outlier.
};

struct epoch {
  uint64_t number = 0; ///< The epoch now complete, from 0.
  std::vector<std::optional<double>> slowness{}; ///< Of its gradients.
};

struct checkpoint {
  std::string name;
};

struct warning {
  std::string text;
};

/// No step was made for some time.
struct standstill {
  double seconds = 0;
  recording::progress_figures progress; ///< Whom it waits for.
};

struct stopping {
  std::string reason;
  recording::progress_figures progress; ///< The current figures.
};

/// The summary of a run that may be killed before its end, since it was told to
/// stop. The last note replaces it.
struct early_summary {
  recording::summary summary;
};

/// The last note: the recorder adds the wall time.
struct finished {
  recording::summary summary;
  std::string line; ///< For the user, when the run failed.
};

} // namespace notes

/// One thing that happened, at a step and a time.
struct note {
  uint64_t step = 0;
  double time = 0; ///< s since the run began, on the run's clock.
  std::variant<notes::started, notes::resumed, notes::update, notes::evaluation,
               notes::joined, notes::left, notes::first_gradient,
               notes::members, notes::policy_changed, notes::dropped,
               notes::cancelled, notes::refused, notes::epoch,
               notes::checkpoint, notes::warning, notes::standstill,
               notes::stopping, notes::early_summary, notes::finished>
    what;
};

/// A score for the files. @param time s of the run.
inline recording::evaluation_record record_of(const score& found, double time) {
  return {found.weights.value, time, found.samples, found.metrics};
}

} // namespace troupe
