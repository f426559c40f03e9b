#pragma once
// The tensor work that follows from a decision: gradients that are held, and
// the steps that make the next version of them, here and on other shards.
//
// A part of the server's state; not thread-safe.

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
  /// A gradient is in the weights, or will never be.
  std::function<void(const push_id&)> settled;
  /// A version is out.
  std::function<void(version)> made;
};

class step_pipeline {
public:
  explicit step_pipeline(step_pipeline_parts parts);

  /// A sound gradient waits for the policy's decision.
  void hold(const push_header& header, const payload& gradient);

  /// The learning rate of each step that was decided on, in their order.
  /// @param epochs Passes over the data before the first of them.
  /// @param samples Of an epoch.
  std::vector<double> rates_of(const std::vector<cores::update_order>& steps,
                               double epochs, uint64_t samples) const;

  /// Forgets gradients, makes the steps. Throws when a step cannot be made.
  void carry_out(const cores::orders& what, const std::vector<double>& rates);

  /// No step will be made any more.
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
