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

#include <functional>
#include <unordered_map>
#include <vector>

namespace troupe {

struct step_pipeline_parts {
  config::training_settings settings;
  server_model* model = nullptr;
  shard_group* shards = nullptr;
  /// Called when a gradient was applied or dropped.
  std::function<void(const push_id&)> settled;
  /// Called when a new version is published.
  std::function<void(version)> made;
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

  /// Forgets the dropped gradients and makes the steps. Throws when a step
  /// cannot be made.
  void carry_out(const cores::orders& what, const std::vector<double>& rates);

  /// Forgets all gradients: no more steps will be made.
  void clear() { held_.clear(); }

private:
  /// A gradient that the policy has not yet decided on.
  struct held_push {
    uint64_t samples = 0;
    payload gradient;
  };

  void make(const cores::update_order& step, double rate);

  step_pipeline_parts parts_;
  models::learning_rate rate_;
  std::unordered_map<push_id, held_push, cores::push_hash> held_;
};

} // namespace troupe
