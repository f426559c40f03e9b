#include "models/optim/optimizer.hpp"

#include "config/text/failure.hpp"
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
      std::vector<element_range> without_decay)
    : slotted_optimizer(settings, layout, std::move(without_decay),
                        settings.momentum != 0
                          ? std::vector<std::string>{"momentum_buffer"}
                          : std::vector<std::string>{}) {
    // nop
  }

  std::string_view name() const noexcept override { return "sgd"; }

  template <class T>
  auto begin(double lr) const {
    kernels::sgd_terms<T> terms{static_cast<T>(lr),
                                static_cast<T>(settings().momentum),
                                static_cast<T>(settings().weight_decay),
                                settings().nesterov, steps() == 0};
    auto plain = terms;
    plain.weight_decay = 0;
    return [terms, plain, buffer = slot<T>(0)](const block_of_step<T>& x) {
      kernels::fastest<T>().sgd(
        x.decays ? terms : plain, x.next, x.current, x.gradient,
        buffer == nullptr ? nullptr : buffer + x.first, x.count);
    };
  }
};

/// Adam and AdamW differ in what weight decay means.
class adam final : public slotted_optimizer<adam> {
public:
  adam(const config::training_settings& settings, const flat_layout& layout,
       std::vector<element_range> without_decay, bool decoupled)
    : slotted_optimizer(settings, layout, std::move(without_decay),
                        {"exp_avg", "exp_avg_sq"}),
      decoupled_(decoupled) {
    // nop
  }

  std::string_view name() const noexcept override {
    return decoupled_ ? "adamw" : "adam";
  }

  template <class T>
  auto begin(double lr) const {
    const auto& s = settings();
    auto t = static_cast<double>(steps() + 1);
    kernels::adam_terms<T> terms;
    terms.beta1 = static_cast<T>(s.beta1);
    terms.beta2 = static_cast<T>(s.beta2);
    terms.epsilon = static_cast<T>(s.epsilon);
    terms.weight_decay = static_cast<T>(decoupled_ ? 0 : s.weight_decay);
    terms.shrink = static_cast<T>(decoupled_ ? 1 - lr * s.weight_decay : 1);
    terms.step_size = static_cast<T>(lr / (1 - std::pow(s.beta1, t)));
    terms.root_scale = static_cast<T>(std::sqrt(1 - std::pow(s.beta2, t)));
    auto plain = terms;
    plain.weight_decay = 0;
    plain.shrink = 1;
    return [terms, plain, average = slot<T>(0),
            square = slot<T>(1)](const block_of_step<T>& x) {
      kernels::fastest<T>().adam(x.decays ? terms : plain, x.next, x.current,
                                 x.gradient, average + x.first,
                                 square + x.first, x.count);
    };
  }

private:
  bool decoupled_;
};

/// Duchi, Hazan and Singer, "Adaptive subgradient methods for online learning
/// and stochastic optimization", JMLR 2011, with diagonal matrices.
class adagrad final : public slotted_optimizer<adagrad> {
public:
  adagrad(const config::training_settings& settings, const flat_layout& layout,
          std::vector<element_range> without_decay)
    : slotted_optimizer(settings, layout, std::move(without_decay), {"sum"}) {
    // nop
  }

  std::string_view name() const noexcept override { return "adagrad"; }

  template <class T>
  auto begin(double lr) const {
    kernels::adagrad_terms<T> terms{static_cast<T>(lr),
                                    static_cast<T>(settings().epsilon),
                                    static_cast<T>(settings().weight_decay)};
    auto plain = terms;
    plain.weight_decay = 0;
    return [terms, plain, sum = slot<T>(0)](const block_of_step<T>& x) {
      kernels::fastest<T>().adagrad(x.decays ? terms : plain, x.next, x.current,
                                    x.gradient, sum + x.first, x.count);
    };
  }
};

using settings_type = config::training_settings;
using ranges = std::vector<element_range>;

std::unique_ptr<optimizer> make_sgd(const settings_type& settings,
                                    const flat_layout& layout,
                                    ranges without_decay) {
  if (settings.nesterov && settings.momentum == 0) {
    throw usage_error("nesterov needs a momentum above 0");
  }
  return std::make_unique<sgd>(settings, layout, std::move(without_decay));
}

template <bool Decoupled>
std::unique_ptr<optimizer> make_adam(const settings_type& settings,
                                     const flat_layout& layout,
                                     ranges without_decay) {
  return std::make_unique<adam>(settings, layout, std::move(without_decay),
                                Decoupled);
}

std::unique_ptr<optimizer> make_adagrad(const settings_type& settings,
                                        const flat_layout& layout,
                                        ranges without_decay) {
  return std::make_unique<adagrad>(settings, layout, std::move(without_decay));
}

std::vector<optimizer_entry> own_optimizers() {
  auto slots = [](uint64_t n) {
    return [n](const settings_type&) {
      return n;
    };
  };
  return {
    {{.name = "sgd",
      .slots = [](const auto& s) -> uint64_t {
        return s.momentum != 0;
      }},
     make_sgd},
    {{.name = "adam", .slots = slots(2)}, make_adam<false>},
    {{.name = "adamw", .slots = slots(2)}, make_adam<true>},
    {{.name = "adagrad", .slots = slots(1), .epsilon = 1e-10}, make_adagrad},
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

register_optimizer::register_optimizer(optimizer_entry what) {
  auto& all = optimizer_table();
  config::add_optimizer(what.facts);
  all.push_back(std::move(what));
}

optimizer::~optimizer() {
  // nop
}

std::unique_ptr<optimizer>
make_optimizer(const config::training_settings& settings,
               const flat_layout& layout,
               std::vector<element_range> without_decay) {
  for (const auto& x : optimizer_table()) {
    if (x.facts.name == settings.optimizer) {
      return x.make(settings, layout, std::move(without_decay));
    }
  }
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
