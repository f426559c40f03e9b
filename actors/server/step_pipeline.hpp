#pragma once
// The tensor work that follows from the scheduler's decisions: it keeps
// gradients until the policy has decided on them, and makes steps of them, on
// the lead and on the other shards.
//
// A part of the parameter server's state, called on the server's thread; not
// thread-safe.

#include "actors/core/push_hash.hpp"
#include "actors/core/step_scheduler.hpp"
#include "actors/shards/shard_group.hpp"
#include "actors/state/server_model.hpp"
#include "models/optim/learning_rate.hpp"

#include <deque>
#include <functional>
#include <unordered_map>
#include <utility>
#include <vector>

namespace troupe {

struct step_pipeline_parts {
  config::training_settings settings;
  server_model* model = nullptr;
  shard_group* shards = nullptr;
  /// Called when a gradient was dropped, or (true) applied.
  std::function<void(const push_id&, bool)> settled;
  /// Called when all steps of a decision are made: the versions after the first
  /// argument up to the second, which is published.
  std::function<void(version, version)> made;
  /// Does what it is given after the call that led to it; the run fails if that
  /// throws.
  std::function<void(const std::function<void()>&)> attempt;
};

class step_pipeline {
public:
  explicit step_pipeline(step_pipeline_parts parts);

  /// Keeps a sound gradient until the policy decides on it.
  void hold(const push_header& header, const payload& gradient);

  /// The learning rate of each step that was decided on, in their order.
  /// @param epochs Passes over the data before the first of them.
  /// @param samples The samples of an epoch.
  std::vector<double> rates_of(const std::vector<cores::update_order>& steps,
                               double epochs, uint64_t samples) const;

  /// Forgets the dropped gradients and makes the steps, then calls `then`. That
  /// is at once, unless norms must be asked for at the other shards. Throws
  /// when a step cannot be made.
  /// @param when_told Called before that, when the other shards have been told
  /// of all steps and the lead is yet to make its own part of the last. Or
  /// null.
  void carry_out(const cores::orders& what, const std::vector<double>& rates,
                 std::function<void()> when_told, std::function<void()> then);

  /// Whether `then` is still to be called. Nothing else can be carried out, and
  /// the weights are not yet those that the scheduler's counts are about.
  bool is_open() const { return then_ != nullptr; }

  /// Forgets all gradients: no more steps will be made.
  void clear();

private:
  /// A gradient that the policy has not yet decided on.
  struct held_push {
    uint64_t samples = 0;
    payload gradient;
  };

  struct step {
    shard_step what;
    std::vector<payload> gradients;
    std::vector<double> shares; ///< As in `what`, for the model.
  };

  void proceed();
  bool limit(step next);
  bool measure(step next);
  void ask_for_factors(step next);
  step begin(const cores::update_order& order, double rate);
  void finish(step next);
  void finish(step next,
              const std::vector<models::parameter_squares>& measured);
  void shards_are_told();

  step_pipeline_parts parts_;
  models::learning_rate rate_;
  std::unordered_map<push_id, held_push, cores::push_hash> held_;
  std::deque<std::pair<cores::update_order, double>> ordered_;
  version before_; ///< The version that the decision's first step begins from.
  version made_;   ///< The newest version.
  std::function<void()> when_told_;
  std::function<void()> then_;
};

} // namespace troupe
