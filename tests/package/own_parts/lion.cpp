// An optimiser that Troupe does not know: Chen et al. 2023, "Symbolic discovery
// of optimization algorithms", algorithm 2.

#include <models/optim/registration.hpp>
#include <models/optim/slotted_optimizer.hpp>

namespace {

using namespace troupe::models;

class lion final : public slotted_optimizer<lion> {
public:
  lion(const troupe::config::training_settings& settings,
       const flat_layout& layout, parameter_groups groups)
    : slotted_optimizer(settings, layout, std::move(groups), {"exp_avg"}) {
    // nop
  }

  std::string_view name() const noexcept override { return "lion"; }

  template <class T>
  auto begin(double lr, const group_terms& group) const {
    auto rate = static_cast<T>(lr);
    auto beta1 = static_cast<T>(settings().beta1);
    auto beta2 = static_cast<T>(settings().beta2);
    auto decay = static_cast<T>(group.weight_decay);
    return [=, average = slot<T>(0)](const block_of_step<T>& x) {
      auto* a = average + x.first;
      for (size_t i = 0; i < x.count; ++i) {
        auto g = x.gradient[i];
        auto c = a[i] + (g - a[i]) * (1 - beta1);
        auto sign = static_cast<T>((c > 0) - (c < 0));
        a[i] += (g - a[i]) * (1 - beta2);
        x.next[i] = x.current[i] - rate * (sign + decay * x.current[i]);
      }
    };
  }
};

const register_optimizer mine{
  {{.name = "lion",
    .slots = [](const auto&) -> uint64_t {
      return 1;
    }},
   [](const auto& settings, const auto& layout, auto groups) {
     return std::make_unique<lion>(settings, layout, std::move(groups));
   }}};

} // namespace
