#include "config/rules/local_steps.hpp"

#include "config/schema/policies.hpp"
#include "config/text/value.hpp"
#include "config/values/external.hpp"
#include "config/values/staleness_rule.hpp"

namespace troupe::config {

namespace {

bool has_default(const settings& values, const char* id) {
  return key_of(id).get(values) == key_of(id).get(settings{});
}

/// Refuses what would have to know the fragment of each gradient.
void check_fragments(const resolved& all) {
  const auto& values = all.values;
  auto refuse_as = [&](const std::string& why) {
    refuse(all, "training.fragments", why);
  };
  if (!has_default(values, "training.outliers"))
    refuse_as("makes gradients of different sizes, whose norms cannot be "
              "compared: leave outliers out");
  if (parse_staleness_rule(values.policy.staleness_rule).kind ==
      staleness_rule_kind::delayed_nesterov)
    refuse_as("leaves the momentum of some fragments out of the steps in which "
              "delayed-nesterov uses it: leave --staleness-rule out");
}

/// Refuses what leaves no step to be made with the weights, or needs more
/// leases than a worker may have.
void check_overlap(const resolved& all) {
  const auto& training = all.values.training;
  auto most = training.local_steps.most;
  if (training.overlap_steps >= most)
    refuse(all, "training.overlap-steps",
           "is as many as a round has, and its weights would come too late: "
           "give at most " +
             std::to_string(most - 1) + ", or more --local-steps");
  if (uint64_t{training.overlap_steps} + most > most_local_steps)
    refuse(all, "training.overlap-steps",
           "and --local-steps are more together than the " +
             std::to_string(most_local_steps) +
             " batches that a worker may have ahead: give fewer");
}

} // namespace

void check_staleness_rule(const resolved& all) {
  const auto& training = all.values.training;
  const auto& policy = all.values.policy;
  auto rule = parse_staleness_rule(policy.staleness_rule);
  if (rule.kind == staleness_rule_kind::none)
    return;
  constexpr uint64_t many = 1000;
  const auto& bound = facts_of(policy).staleness;
  if (bound && bound(arguments_of(policy), many) == 0)
    refuse(all, "policy.staleness-rule",
           "changes nothing with " + policy.name +
             ", whose gradients are all of the newest version: leave it out, "
             "or use a policy without a barrier, such as async");
  if (rule.kind == staleness_rule_kind::delayed_nesterov &&
      (training.optimizer != "sgd" || !training.nesterov))
    refuse(all, "policy.staleness-rule",
           "is about Nesterov's momentum: use --optimizer sgd with --nesterov "
           "and a momentum above 0");
}

void check_local_steps(const resolved& all, bool sets_all) {
  const auto& values = all.values;
  const auto& training = values.training;
  if (training.local_steps.most == 0) {
    for (auto id : {"training.fragments", "training.overlap-steps",
                    "training.inner-optimizer", "training.inner-lr-schedule"})
      if (!has_default(values, id))
        refuse(all, id,
               "is for steps that workers make on their own: add --local-steps "
               "H, or leave it out");
    return;
  }
  if (!sets_all)
    return;
  if (training.fragments > 1)
    check_fragments(all);
  if (training.overlap_steps > 0)
    check_overlap(all);
  if (training.weight_decay > 0)
    refuse(all, "training.weight-decay",
           "is for each gradient, and the server has differences of weights: "
           "give it to the workers, as in --inner-optimizer "
           "adamw(weight-decay=0.1)");
  if (values.parallel.mode != parallel_mode::data_parallel)
    refuse(all, "training.local-steps",
           "are made by workers that have the whole network: leave --mode " +
             print(values.parallel.mode) + " out");
  if (training.local_steps.by_rate &&
      values.data.sharding != sharding_kind::leased)
    refuse(all, "training.local-steps",
           "lets quick workers make more steps, and with --sharding " +
             print(values.data.sharding) +
             " each has samples of its own: give a number, or leave --sharding "
             "out");
  if (!is_external(values.data.dataset))
    return;
  for (auto id : {"training.inner-optimizer", "training.inner-lr-schedule",
                  "training.param-groups"})
    if (!has_default(values, id))
      refuse(all, id,
             "is for workers that compute the network themselves; with "
             "local-steps a program of your own has its own optimizer: leave "
             "it out");
}

} // namespace troupe::config
