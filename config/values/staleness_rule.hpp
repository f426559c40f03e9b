#pragma once
// `--staleness-rule polynomial(power=0.5)`: how gradients count that were
// computed on older weights. Here the declaration is only read;
// actors/policies/staleness_rule.hpp applies it. Plain values.

#include <cstdint>
#include <string_view>

namespace troupe::config {

enum class staleness_rule_kind : uint8_t { none, polynomial, delayed_nesterov };

struct staleness_rule {
  staleness_rule_kind kind = staleness_rule_kind::none;
  double power = 0;   ///< polynomial: a gradient counts 1 / (1 + s)^power.
  uint64_t every = 0; ///< delayed-nesterov: steps; 0: one for each worker.

  bool operator==(const staleness_rule&) const = default;
};

/// How a step uses the momentum of an optimiser that has one. With both it
/// follows the formula of torch.optim.SGD. With Nesterov's momentum several
/// steps in between may only add to it: delayed Nesterov (Liu et al. 2024,
/// "Asynchronous Local-SGD Training for Language Modeling", arXiv:2401.09135).
struct momentum_use {
  bool decays = true; ///< Before the step's gradient is added to it.
  bool moves = true;  ///< It moves the weights, and not the gradient alone.

  bool operator==(const momentum_use&) const = default;
};

/// Reads `none`, `polynomial(power=A)` or `delayed-nesterov(every=N)`. Throws
/// `bad_value` that says what is wrong.
staleness_rule parse_staleness_rule(std::string_view text);

} // namespace troupe::config
