#pragma once
// The tensor work that follows from the scheduler's decisions: it keeps
// gradients until the policy has decided on them, and makes steps of them, on
// the lead and on the other shards.
//
// A part of the parameter server's state, called on the server's thread; not
// thread-safe.

#include "actors/core/push_hash.hpp"
#include "actors/core/step_scheduler.hpp"
#include "actors/runtime/exchange_front.hpp"
#include "actors/server/lead.hpp"
#include "actors/shards/shard_group.hpp"
#include "actors/weights/server_model.hpp"
#include "models/optim/learning_rate.hpp"

#include <deque>
#include <functional>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

namespace troupe {

struct step_pipeline_parts {
  config::training_settings settings;
  server_model* model = nullptr;
  shard_group* shards = nullptr;
  lead_actor::pointer self = nullptr;
  /// Where gradients are added up that are only offered; or null.
  node_exchange exchange{};
  /// The momentum of a step with so many members; nothing or empty: it is
  /// fixed.
  std::function<std::optional<double>(uint32_t members)> momentum{};
};

class step_pipeline {
public:
  step_pipeline(lead& of, step_pipeline_parts parts);

  /// Keeps a sound gradient, or one that is offered, until the policy decides
  /// on it. @param fragment Of the weights, that it is of.
  void hold(const push_header& header, const payload& gradient,
            uint32_t fragment = 0);

  /// The learning rate of each step that was decided on, in their order.
  /// @param epochs Passes over the data before the first of them.
  /// @param samples The samples of an epoch.
  std::vector<double> rates_of(const std::vector<cores::update_order>& steps,
                               double epochs, uint64_t samples) const;

  /// Forgets the dropped gradients and makes the steps, and tells the lead. All
  /// is done on return, unless norms must be asked for at the other shards.
  /// Throws when a step cannot be made.
  void carry_out(const cores::orders& decided,
                 const std::vector<double>& rates);

  /// Whether a decision is still being carried out. Until that is done no other
  /// can be, and the weights are not yet those that the scheduler's counts are
  /// about.
  bool is_open() const { return decided_.has_value(); }

  /// Whether the nodes get the weights of this version from an exchange.
  bool gathers(version of) const { return gathered_ == of; }

  /// The next steps have this momentum, where it does not follow from the
  /// number of members.
  void set_momentum(double momentum) { momentum_ = momentum; }

  /// Forgets all gradients: no more steps will be made.
  void clear();

private:
  /// A gradient that the policy has not yet decided on.
  struct held_push {
    uint64_t samples = 0;
    payload gradient;
    uint32_t fragment = 0;
  };

  struct step {
    shard_step what;
    std::vector<payload> gradients;
    std::vector<double> shares;        ///< As in `what`, for the model.
    std::vector<uint32_t> fragments{}; ///< Empty: there is only one.
    mean_of mean() const { return {gradients, shares, fragments}; }
    bool has_sum = false; ///< The last one, of those that were offered.
  };

  void proceed();
  bool add_up(step next);
  static void use_sum(step& next, const payload& sum, double share);
  bool limit(step next);
  bool measure(step next);
  void ask_for_factors(step next);
  step begin(const cores::update_order& order, double rate);
  void finish(step next);
  void finish(step next,
              const std::vector<models::parameter_squares>& measured);
  void all_are_ordered();

  lead& lead_;
  step_pipeline_parts parts_;
  models::learning_rate rate_;
  std::unordered_map<push_id, held_push, cores::push_hash> held_;
  std::deque<std::pair<cores::update_order, double>> ordered_;
  version before_; ///< The version that the decision's first step begins from.
  version made_;   ///< The newest version.
  version gathered_;               ///< The newest one of a step with a sum.
  std::optional<double> momentum_; ///< Nothing: that of the settings.
  std::optional<cores::orders> decided_; ///< What is being carried out.
  bool shards_are_told_ = false;         ///< Of all its steps.
};

} // namespace troupe
