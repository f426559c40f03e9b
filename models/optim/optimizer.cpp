#include "models/optim/optimizer.hpp"

#include "config/text/failure.hpp"
#include "models/optim/device_optimizer.hpp"
#include "models/optim/registration.hpp"
#include "models/optim/slotted_optimizer.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace troupe::models {

namespace {

class sgd final : public slotted_optimizer<sgd> {
public:
  sgd(const config::training_settings& settings, const flat_layout& layout,
      parameter_groups groups)
    : slotted_optimizer(settings, layout, std::move(groups),
                        settings.momentum != 0
                          ? std::vector<std::string>{"momentum_buffer"}
                          : std::vector<std::string>{}) {
    // nop
  }

  std::string_view name() const noexcept override { return "sgd"; }

  template <class T>
  auto begin(double lr, const group_terms& group) const {
    auto momentum = static_cast<T>(group.momentum);
    kernels::sgd_terms<T> terms{static_cast<T>(lr),
                                use().decays ? momentum : 1,
                                static_cast<T>(group.weight_decay),
                                settings().nesterov,
                                steps() == 0,
                                use().moves ? momentum : 0};
    return [terms, buffer = slot<T>(0)](const block_of_step<T>& x) {
      kernels::fastest<T>().sgd(terms, x.next, x.current, x.gradient,
                                buffer == nullptr ? nullptr : buffer + x.first,
                                x.count);
    };
  }
};

/// Adam and AdamW differ in what weight decay means.
class adam final : public slotted_optimizer<adam> {
public:
  adam(const config::training_settings& settings, const flat_layout& layout,
       parameter_groups groups, bool decoupled)
    : slotted_optimizer(settings, layout, std::move(groups),
                        {"exp_avg", "exp_avg_sq"}),
      decoupled_(decoupled) {
    // nop
  }

  std::string_view name() const noexcept override {
    return decoupled_ ? "adamw" : "adam";
  }

  template <class T>
  auto begin(double lr, const group_terms& group) const {
    const auto& s = settings();
    auto t = static_cast<double>(steps() + 1);
    auto decay = group.weight_decay;
    kernels::adam_terms<T> terms;
    terms.beta1 = static_cast<T>(s.beta1);
    terms.beta2 = static_cast<T>(s.beta2);
    terms.epsilon = static_cast<T>(s.epsilon);
    terms.weight_decay = static_cast<T>(decoupled_ ? 0 : decay);
    terms.shrink = static_cast<T>(decoupled_ ? 1 - lr * decay : 1);
    terms.step_size = static_cast<T>(lr / (1 - std::pow(s.beta1, t)));
    terms.root_scale = static_cast<T>(std::sqrt(1 - std::pow(s.beta2, t)));
    return [terms, average = slot<T>(0),
            square = slot<T>(1)](const block_of_step<T>& x) {
      kernels::fastest<T>().adam(terms, x.next, x.current, x.gradient,
                                 average + x.first, square + x.first, x.count);
    };
  }

private:
  bool decoupled_;
};

class lamb final : public slotted_optimizer<lamb> {
public:
  lamb(const config::training_settings& settings, const flat_layout& layout,
       parameter_groups groups)
    : slotted_optimizer(settings, layout, std::move(groups),
                        {"exp_avg", "exp_avg_sq"}) {
    // nop
  }

  std::string_view name() const noexcept override { return "lamb"; }

  template <class T>
  auto first_half(const group_terms& group) const {
    return [terms = terms_of<T>(group), average = slot<T>(0),
            square = slot<T>(1)](const block_of_step<T>& x) {
      kernels::fastest<T>().lamb_step(terms, x.next, x.current, x.gradient,
                                      average + x.first, square + x.first,
                                      x.count);
    };
  }

  template <class T>
  auto begin(double lr, const group_terms& group) const {
    return [terms = terms_of<T>(group), rate = static_cast<T>(lr),
            average = slot<T>(0),
            square = slot<T>(1)](const block_of_step<T>& x) {
      kernels::fastest<T>().lamb(terms, rate * x.factor, x.next, x.current,
                                 average + x.first, square + x.first, x.count);
    };
  }

private:
  template <class T>
  kernels::lamb_terms<T> terms_of(const group_terms& group) const {
    const auto& s = settings();
    auto t = static_cast<double>(steps() + 1);
    kernels::lamb_terms<T> out;
    out.beta1 = static_cast<T>(s.beta1);
    out.beta2 = static_cast<T>(s.beta2);
    out.epsilon = static_cast<T>(s.epsilon);
    out.weight_decay = static_cast<T>(group.weight_decay);
    out.average_scale = static_cast<T>(1 / (1 - std::pow(s.beta1, t)));
    out.root_scale = static_cast<T>(std::sqrt(1 - std::pow(s.beta2, t)));
    return out;
  }
};

/// Duchi, Hazan and Singer, "Adaptive subgradient methods for online learning
/// and stochastic optimization", JMLR 2011, with diagonal matrices.
class adagrad final : public slotted_optimizer<adagrad> {
public:
  adagrad(const config::training_settings& settings, const flat_layout& layout,
          parameter_groups groups)
    : slotted_optimizer(settings, layout, std::move(groups), {"sum"}) {
    // nop
  }

  std::string_view name() const noexcept override { return "adagrad"; }

  template <class T>
  auto begin(double lr, const group_terms& group) const {
    kernels::adagrad_terms<T> terms{static_cast<T>(lr),
                                    static_cast<T>(settings().epsilon),
                                    static_cast<T>(group.weight_decay)};
    return [terms, sum = slot<T>(0)](const block_of_step<T>& x) {
      kernels::fastest<T>().adagrad(terms, x.next, x.current, x.gradient,
                                    sum + x.first, x.count);
    };
  }
};

using settings_type = config::training_settings;

template <class Optimizer>
std::unique_ptr<optimizer> make(const settings_type& settings,
                                const flat_layout& layout,
                                parameter_groups groups) {
  return std::make_unique<Optimizer>(settings, layout, std::move(groups));
}

std::unique_ptr<optimizer> make_sgd(const settings_type& settings,
                                    const flat_layout& layout,
                                    parameter_groups groups) {
  if (settings.nesterov && settings.momentum == 0) {
    throw usage_error("nesterov needs a momentum above 0");
  }
  return make<sgd>(settings, layout, std::move(groups));
}

template <bool Decoupled>
std::unique_ptr<optimizer> make_adam(const settings_type& settings,
                                     const flat_layout& layout,
                                     parameter_groups groups) {
  return std::make_unique<adam>(settings, layout, std::move(groups), Decoupled);
}

std::vector<optimizer_entry> own_optimizers() {
  auto slots = [](uint64_t n) {
    return [n](const settings_type&) {
      return n;
    };
  };
  return {
    {{.name = "sgd",
      .slots = [](const auto& s) -> uint64_t { return s.momentum != 0; },
      .has_momentum = true},
     make_sgd},
    {{.name = "adam", .slots = slots(2)}, make_adam<false>},
    {{.name = "adamw", .slots = slots(2)}, make_adam<true>},
    {{.name = "lamb", .slots = slots(2), .epsilon = 1e-6}, make<lamb>},
    {{.name = "adagrad", .slots = slots(1), .epsilon = 1e-10}, make<adagrad>},
  };
}

/// Troupe's own, then those of the user's program in the order of registration.
std::vector<optimizer_entry>& optimizer_table() {
  static auto all = [] {
    auto own = own_optimizers();
    for (const auto& each : own)
      config::add_optimizer(each.facts);
    return own;
  }();
  return all;
}

/// Makes them known to config before main.
[[maybe_unused]] const auto& optimizers_are_known = optimizer_table();

} // namespace

/// Programs that link the library contain this source although they may not
/// call it (CMakeLists.txt).
extern "C" const char troupe_optimizers_are_known = 1;

register_optimizer::register_optimizer(optimizer_entry entry) {
  auto& all = optimizer_table();
  config::add_optimizer(entry.facts);
  all.push_back(std::move(entry));
}

optimizer::~optimizer() {
  // nop
}

std::vector<double> step_factors(std::span<const parameter_squares> all,
                                 size_t count) {
  std::vector<parameter_squares> sums(count);
  for (const auto& one : all) {
    auto& its = sums.at(one.parameter);
    its.weights.add(one.weights.parts());
    its.step.add(one.step.parts());
  }
  std::vector<double> out;
  for (const auto& [parameter, weights, step] : sums) {
    auto both = weights.value() > 0 && step.value() > 0;
    out.push_back(both ? std::sqrt(weights.value()) / std::sqrt(step.value())
                       : 1);
  }
  return out;
}

std::unique_ptr<optimizer>
make_optimizer(const config::training_settings& settings,
               const flat_layout& layout) {
  return make_optimizer(settings, layout, groups_of(layout, settings));
}

std::unique_ptr<optimizer>
make_optimizer(const config::training_settings& settings,
               const flat_layout& layout, parameter_groups groups) {
  for (const auto& x : optimizer_table())
    if (x.facts.name == settings.optimizer)
      return settings.device == "cpu"
               ? x.make(settings, layout, std::move(groups))
               : make_device_optimizer(settings, layout, std::move(groups));
  std::string known;
  for (const auto& name : optimizer_names()) {
    known += (known.empty() ? "" : ", ") + name;
  }
  throw usage_error("unknown optimizer '" + settings.optimizer +
                    "'; there are: " + known);
}

std::vector<std::string> optimizer_names() {
  std::vector<std::string> result;
  for (const auto& x : optimizer_table()) {
    result.push_back(x.facts.name);
  }
  return result;
}

} // namespace troupe::models
