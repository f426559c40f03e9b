#include "models/optim/optimizer.hpp"

#include "config/schema/known_names.hpp"
#include "config/text/failure.hpp"
#include "models/kernels/kernels.hpp"
#include "models/optim/aggregate.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

namespace troupe::models {

namespace {

/// The pieces of one step that lie at the same place.
template <class T>
struct block_of_step {
  T* next;
  const T* current;
  const T* gradient;
  size_t first; ///< Where they begin, in elements.
  size_t count;
  bool decays = true; ///< Has weight decay.

  /// The part up to element `end` of the whole, which is cut off.
  block_of_step cut(size_t end) {
    auto out = *this;
    out.count = end - first;
    next += out.count;
    current += out.count;
    gradient += out.count;
    first += out.count;
    count -= out.count;
    return out;
  }
};

/// Goes through blocks in their order and cuts them where decay begins or ends.
class decay_cuts {
public:
  explicit decay_cuts(const std::vector<element_range>& without)
    : without_(without) {
    // nop
  }

  template <class T, class Update>
  void each(block_of_step<T> x, const Update& update) {
    while (x.count > 0) {
      auto end = x.first + x.count;
      while (at_ < without_.size() && without_[at_].end() <= x.first)
        ++at_;
      x.decays = true;
      if (at_ < without_.size() && without_[at_].first < end) {
        x.decays = without_[at_].first > x.first;
        end = std::min<size_t>(end, x.decays ? without_[at_].first
                                             : without_[at_].end());
      }
      update(x.cut(end));
    }
  }

private:
  const std::vector<element_range>& without_;
  size_t at_ = 0;
};

/// Whether the next weights would leave the caches before anybody reads them;
/// then they are streamed. Measured with 11 million floats (45 MB), SGD with
/// momentum on two gradients: 13 ms instead of 20; with 0.4 million it makes no
/// difference.
bool leaves_caches(const void* next, uint64_t bytes) {
  constexpr uint64_t cached = 4u << 20;
  return bytes > cached &&
         std::bit_cast<uintptr_t>(next) % kernels::stream_alignment == 0;
}

/// What the optimisers share: settings, named slots and the count of steps.
/// `Rule` has a member `begin<T>(lr)` that gives what is done with each block.
template <class Rule>
class slotted_optimizer : public optimizer {
public:
  slotted_optimizer(const config::training_settings& settings,
                    const flat_layout& layout,
                    std::vector<element_range> without_decay,
                    const std::vector<std::string>& slot_names)
    : settings_(settings), layout_(layout),
      without_decay_(std::move(without_decay)) {
    for (const auto& name : slot_names) {
      slots_.push_back(
        {name, at::zeros({static_cast<int64_t>(layout.parameter_count())},
                         to_aten(layout.dtype()))});
    }
  }

  void step(const at::Tensor& next, const at::Tensor& current,
            std::span<const at::Tensor> gradients,
            std::span<const double> shares, double lr, double scale,
            const lanes& across) final {
    if (!layout_.fits(next) || !layout_.fits(current) ||
        !std::ranges::all_of(
          gradients, [this](const auto& x) { return layout_.fits(x); })) {
      throw run_error(
        "weights or gradients do not fit the optimiser's layout of " +
        std::to_string(layout_.count()) + " parameters");
    }
    if (layout_.dtype() == config::scalar_type::float64) {
      pass<double>(next, current, gradients, shares, lr, scale, across);
    } else {
      pass<float>(next, current, gradients, shares, lr, scale, across);
    }
    ++steps_;
  }

  std::vector<named_slot> slots() const final { return slots_; }

  uint64_t steps() const noexcept final { return steps_; }

  void load(const std::vector<named_slot>& saved, uint64_t steps) final {
    if (saved.size() != slots_.size()) {
      throw run_error("saved state of " + std::to_string(saved.size()) +
                      " slots is not that of " + std::string{name()} +
                      ", which has " + std::to_string(slots_.size()));
    }
    for (size_t i = 0; i < slots_.size(); ++i) {
      if (saved[i].name != slots_[i].name ||
          !layout_.fits_parameters(saved[i].flat)) {
        throw run_error("saved slot " + saved[i].name + " is not slot " +
                        slots_[i].name + " of " + std::string{name()} +
                        " with " + std::to_string(layout_.parameter_count()) +
                        " values");
      }
    }
    for (size_t i = 0; i < slots_.size(); ++i) {
      slots_[i].flat.copy_(saved[i].flat);
    }
    steps_ = steps;
  }

protected:
  const config::training_settings& settings() const noexcept {
    return settings_;
  }

  /// The memory of a slot; null if there is none.
  template <class T>
  T* slot(size_t i) const {
    return i < slots_.size() ? slots_[i].flat.template mutable_data_ptr<T>()
                             : nullptr;
  }

private:
  template <class T>
  void pass(const at::Tensor& next, const at::Tensor& current,
            std::span<const at::Tensor> gradients,
            std::span<const double> shares, double lr, double scale,
            const lanes& across) {
    using mean_type = blocked_mean<T>;
    mean_type fits{gradients, shares}; // Or throws, before anything changes.
    auto update = static_cast<const Rule*>(this)->template begin<T>(lr);
    auto* to = next.mutable_data_ptr<T>();
    const auto* from = current.const_data_ptr<T>();
    auto streams = to != from && leaves_caches(to, layout_.bytes());
    auto grain = std::max(fits.block(), least_part);
    across.each(layout_.parameter_count(), grain,
                [&](size_t first, size_t end) {
                  mean_type mean{gradients, shares};
                  part_of_pass(mean, to, from, first, end,
                               static_cast<T>(scale), update, streams);
                });
  }

  /// Sums a block of the gradients and updates with it before the next block is
  /// read, so that the update finds the sum in the cache.
  template <class T, class Update>
  void part_of_pass(blocked_mean<T>& mean, T* to, const T* from, size_t first,
                    size_t end, T factor, const Update& update,
                    bool streams) const {
    auto block = mean.block();
    decay_cuts cuts{without_decay_};
    std::array<T, blocked_mean<T>::largest_block> made;
    std::array<T, blocked_mean<T>::largest_block> scaled;
    for (; first < end; first += block) {
      auto n = std::min(block, end - first);
      auto gradient = mean.at(first, n);
      if (factor != 1) {
        kernels::fastest<T>().sum(scaled.data(), &gradient, &factor, 1, n);
        gradient = scaled.data();
      }
      cuts.each(block_of_step<T>{streams ? made.data() : to + first,
                                 from + first, gradient, first, n},
                update);
      if (streams) {
        kernels::fastest<T>().stream(to + first, made.data(), n);
      }
    }
    if (streams) {
      kernels::end_of_streams();
    }
  }

  config::training_settings settings_;
  flat_layout layout_;
  std::vector<element_range> without_decay_;
  std::vector<named_slot> slots_;
  uint64_t steps_ = 0;
};

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

template <bool Decoupled>
std::unique_ptr<optimizer> make_adam(const config::training_settings& settings,
                                     const flat_layout& layout,
                                     std::vector<element_range> without_decay) {
  return std::make_unique<adam>(settings, layout, std::move(without_decay),
                                Decoupled);
}

std::unique_ptr<optimizer> make_sgd(const config::training_settings& settings,
                                    const flat_layout& layout,
                                    std::vector<element_range> without_decay) {
  if (settings.nesterov && settings.momentum == 0) {
    throw usage_error("nesterov needs a momentum above 0");
  }
  return std::make_unique<sgd>(settings, layout, std::move(without_decay));
}

struct entry {
  std::string_view name;
  std::unique_ptr<optimizer> (*make)(const config::training_settings&,
                                     const flat_layout&,
                                     std::vector<element_range>);
};

constexpr std::array registry{entry{"sgd", make_sgd},
                              entry{"adam", make_adam<false>},
                              entry{"adamw", make_adam<true>}};

/// Makes them known to config before main.
[[maybe_unused]] const bool optimizers_are_known = [] {
  for (const auto& each : registry)
    config::add_optimizer(std::string{each.name});
  return true;
}();

} // namespace

/// Programs that link the library contain this source although they may not
/// call it (CMakeLists.txt).
extern "C" const char troupe_optimizers_are_known = 1;

optimizer::~optimizer() {
  // nop
}

std::unique_ptr<optimizer>
make_optimizer(const config::training_settings& settings,
               const flat_layout& layout,
               std::vector<element_range> without_decay) {
  std::string known;
  for (const auto& x : registry) {
    if (x.name == settings.optimizer) {
      return x.make(settings, layout, std::move(without_decay));
    }
    known += (known.empty() ? "" : ", ") + std::string{x.name};
  }
  throw usage_error("unknown optimizer '" + settings.optimizer +
                    "'; there are: " + known);
}

std::vector<std::string> optimizer_names() {
  std::vector<std::string> result;
  for (const auto& x : registry) {
    result.emplace_back(x.name);
  }
  return result;
}

} // namespace troupe::models
