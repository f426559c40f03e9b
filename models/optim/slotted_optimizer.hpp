#pragma once
// The base of Troupe's optimisers, and of one of your own: a pass over flat
// buffers that sums the gradients, applies a rule to each block of the mean and
// writes the next weights. The bits do not depend on the number of threads.
// Registered with models/optim/registration.hpp.

#include "config/text/failure.hpp"
#include "models/kernels/kernels.hpp"
#include "models/optim/aggregate.hpp"
#include "models/optim/optimizer.hpp"
#include "models/scalar.hpp"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>
#include <bit>
#include <iterator>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace troupe::models {

/// The pieces of one step that lie at the same place in all its buffers.
template <class T>
struct block_of_step {
  T* next;
  const T* current;
  const T* gradient; ///< Null in the second half of a step.
  size_t first;      ///< Where they begin, in elements.
  size_t count;
  T factor = 1; ///< Of the parameter, if the optimiser has such.

  /// Cuts off and returns the part up to element `end` of the whole.
  block_of_step cut(size_t end) {
    auto out = *this;
    out.count = end - first;
    next += out.count;
    current += out.count;
    if (gradient != nullptr)
      gradient += out.count;
    first += out.count;
    count -= out.count;
    return out;
  }
};

namespace detail {

/// Parts of the same group that follow each other become one.
inline void merge(std::vector<group_part>& parts) {
  size_t kept = 0;
  for (const auto& part : parts) {
    if (kept > 0 && parts[kept - 1].group == part.group)
      parts[kept - 1].end = part.end;
    else
      parts[kept++] = part;
  }
  parts.resize(kept);
}

/// Goes through blocks in their order and cuts them where a part ends.
class group_cuts {
public:
  explicit group_cuts(const std::vector<group_part>& parts) : parts_(parts) {
    // nop
  }

  template <class T, class Update>
  void each(block_of_step<T> x, const Update& update) {
    while (x.count > 0) {
      while (parts_[at_].end <= x.first)
        ++at_;
      update(parts_[at_],
             x.cut(std::min<size_t>(x.first + x.count, parts_[at_].end)));
    }
  }

private:
  const std::vector<group_part>& parts_;
  size_t at_ = 0;
};

/// Whether the next weights would leave the caches before anybody reads them;
/// then they are streamed. Measured with 11 million floats (45 MB), SGD with
/// momentum on two gradients: 13 ms instead of 20; with 0.4 million it makes no
/// difference.
inline bool leaves_caches(const void* next, uint64_t bytes) {
  constexpr uint64_t cached = 4u << 20;
  return bytes > cached &&
         std::bit_cast<uintptr_t>(next) % kernels::stream_alignment == 0;
}

} // namespace detail

/// What the optimisers share: settings, named slots of zeros, the count of
/// steps, and the average of the weights if there is one. A `Rule` derives from
/// it and has
///
///   template <class T> auto begin(double lr, const group_terms& group) const;
///
/// which returns the function that is called with each block of a step that
/// belongs to the group, a `const block_of_step<T>&`; `lr` is the group's.
/// Several threads call it at a time, each with blocks of its own, and a shard
/// calls it for its own range of the weights alone. So an element's next value
/// may depend on the element's numbers only.
///
/// A rule whose steps have a factor for each parameter also has
///
///   template <class T> auto first_half(const group_terms& group) const;
///
/// which does the same for the first half of a step: its function updates the
/// slots, and writes to `next` the numbers that the factor is made of.
template <class Rule>
class slotted_optimizer : public optimizer {
public:
  slotted_optimizer(const config::training_settings& settings,
                    const flat_layout& layout, parameter_groups groups,
                    std::vector<std::string> slot_names)
    : settings_(settings), layout_(layout), groups_(std::move(groups)) {
    if (!groups_.fit(layout.parameter_count()))
      throw run_error("groups of parameters do not fit the layout of " +
                      std::to_string(layout.parameter_count()) + " parameters");
    if (!has_factors())
      detail::merge(groups_.parts);
    if (settings.ema_decay > 0)
      slot_names.emplace_back(average_slot_name);
    for (const auto& name : slot_names) {
      slots_.push_back(
        {name, at::zeros({static_cast<int64_t>(layout.parameter_count())},
                         to_aten(layout.dtype()))});
    }
  }

  bool has_factors() const noexcept final {
    return requires(const Rule& rule) {
      rule.template first_half<float>(group_terms{});
    };
  }

  void step(const at::Tensor& next, const at::Tensor& current,
            std::span<const at::Tensor> gradients,
            std::span<const double> shares, double lr, double scale,
            const lanes& across, std::span<const double> factors) final {
    require_fit(next);
    require_inputs(current, gradients);
    if (has_factors() &&
        std::ranges::any_of(groups_.parts, [&](const auto& part) {
          return part.parameter >= factors.size();
        }))
      throw run_error("a step of " + std::string{name()} +
                      " needs a factor for each parameter");
    if (layout_.dtype() == config::scalar_type::float64)
      pass<double>(next, {current, gradients, shares, scale, across}, lr,
                   factors);
    else
      pass<float>(next, {current, gradients, shares, scale, across}, lr,
                  factors);
    ++steps_;
  }

  std::vector<parameter_squares> measure(const at::Tensor& current,
                                         std::span<const at::Tensor> gradients,
                                         std::span<const double> shares,
                                         double scale,
                                         const lanes& across) final {
    if constexpr (requires(const Rule& rule) {
                    rule.template first_half<float>(group_terms{});
                  }) {
      require_inputs(current, gradients);
      inputs in{current, gradients, shares, scale, across};
      return layout_.dtype() == config::scalar_type::float64
               ? first_pass<double>(in)
               : first_pass<float>(in);
    } else {
      return {};
    }
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

  /// The memory of a slot; null if there is none. A block has its part of it
  /// from `first` on.
  template <class T>
  T* slot(size_t i) const {
    return i < slots_.size() ? slots_[i].flat.template mutable_data_ptr<T>()
                             : nullptr;
  }

private:
  /// What a pass reads.
  struct inputs {
    const at::Tensor& current;
    std::span<const at::Tensor> gradients;
    std::span<const double> shares;
    double scale;
    const lanes& across;
  };

  void require_fit(const at::Tensor& x) const {
    if (!layout_.fits(x))
      throw run_error(
        "weights or gradients do not fit the optimiser's layout of " +
        std::to_string(layout_.count()) + " parameters");
  }

  void require_inputs(const at::Tensor& current,
                      std::span<const at::Tensor> gradients) const {
    require_fit(current);
    for (const auto& x : gradients)
      require_fit(x);
  }

  const Rule& rule() const { return static_cast<const Rule&>(*this); }

  /// Calls `apply(first, end, mean)` on several threads, each with a range of
  /// its own and means of its own.
  template <class T, class What>
  void each_range(const inputs& in, const What& apply) const {
    using mean_type = blocked_mean<T>;
    mean_type fits{in.gradients, in.shares}; // Or throws.
    auto grain = std::max(fits.block(), least_part);
    in.across.each(layout_.parameter_count(), grain,
                   [&](size_t first, size_t end) {
                     mean_type mean{in.gradients, in.shares};
                     apply(first, end, mean);
                   });
  }

  /// Sums a block of the gradients, if they are wanted, and calls `apply(first,
  /// count, gradient)` before the next block is read, so that it finds the sum
  /// in the cache.
  template <class T, class What>
  void each_block(blocked_mean<T>& mean, size_t first, size_t end, T factor,
                  bool wanted, const What& apply) const {
    auto block = mean.block();
    std::array<T, blocked_mean<T>::largest_block> scaled;
    for (; first < end; first += block) {
      auto n = std::min(block, end - first);
      if (!wanted) {
        apply(first, n, nullptr);
        continue;
      }
      auto gradient = mean.at(first, n);
      if (factor != 1) {
        kernels::fastest<T>().sum(scaled.data(), &gradient, &factor, 1, n);
        gradient = scaled.data();
      }
      apply(first, n, gradient);
    }
  }

  template <class T>
  void pass(const at::Tensor& next, const inputs& in, double lr,
            std::span<const double> factors) {
    std::vector<decltype(rule().template begin<T>(lr, group_terms{}))> updates;
    for (const auto& group : groups_.terms)
      updates.push_back(rule().template begin<T>(lr * group.lr_factor, group));
    auto update = [&](const group_part& part, block_of_step<T> x) {
      if (!factors.empty())
        x.factor = static_cast<T>(factors[part.parameter]);
      updates[part.group](x);
      average(x);
    };
    auto* to = next.mutable_data_ptr<T>();
    const auto* from = in.current.template const_data_ptr<T>();
    auto streams = to != from && detail::leaves_caches(to, layout_.bytes());
    each_range<T>(in, [&](size_t begin, size_t end, blocked_mean<T>& mean) {
      detail::group_cuts cuts{groups_.parts};
      std::array<T, blocked_mean<T>::largest_block> made;
      each_block(mean, begin, end, static_cast<T>(in.scale), !has_factors(),
                 [&](size_t first, size_t n, const T* gradient) {
                   cuts.each(
                     block_of_step<T>{streams ? made.data() : to + first,
                                      from + first, gradient, first, n},
                     update);
                   if (streams)
                     kernels::fastest<T>().stream(to + first, made.data(), n);
                 });
      if (streams)
        kernels::end_of_streams();
    });
  }

  /// The exponential moving average of the weights, which begins with those of
  /// the first step, as torch.optim.swa_utils.AveragedModel does.
  template <class T>
  void average(const block_of_step<T>& x) const {
    if (settings_.ema_decay == 0)
      return;
    auto* its = slot<T>(slots_.size() - 1) + x.first;
    if (steps_ == 0)
      std::copy_n(x.next, x.count, its);
    else
      kernels::fastest<T>().blend(static_cast<T>(1 - settings_.ema_decay), its,
                                  x.next, x.count);
  }

  // Squares are summed in pieces that no cut into shards divides
  // (shard_cuts.hpp), so that the number of shards does not change the sum.
  template <class T>
  std::vector<parameter_squares> first_pass(const inputs& in) {
    constexpr size_t piece = cut_alignment / sizeof(T);
    std::vector<decltype(rule().template first_half<T>(group_terms{}))> rules;
    for (const auto& group : groups_.terms)
      rules.push_back(rule().template first_half<T>(group));
    const auto* from = in.current.template const_data_ptr<T>();
    std::vector<parameter_squares> out;
    std::mutex guard;
    each_range<T>(in, [&](size_t begin, size_t end, blocked_mean<T>& mean) {
      std::vector<parameter_squares> found;
      detail::group_cuts cuts{groups_.parts};
      std::array<T, blocked_mean<T>::largest_block> made;
      auto add = [&](const group_part& part, block_of_step<T> x) {
        if (found.empty() || found.back().parameter != part.parameter)
          found.push_back({part.parameter, {}, {}});
        while (x.count > 0) {
          auto one =
            x.cut(std::min(x.first + x.count, (x.first / piece + 1) * piece));
          rules[part.group](one);
          const auto& loops = kernels::fastest<T>();
          found.back().weights.add(loops.squares(one.current, one.count));
          found.back().step.add(loops.squares(one.next, one.count));
        }
      };
      each_block(mean, begin, end, static_cast<T>(in.scale), true,
                 [&](size_t first, size_t n, const T* gradient) {
                   cuts.each(block_of_step<T>{made.data(), from + first,
                                              gradient, first, n},
                             add);
                 });
      std::lock_guard lock{guard};
      std::ranges::move(found, std::back_inserter(out));
    });
    return out;
  }

  config::training_settings settings_;
  flat_layout layout_;
  parameter_groups groups_;
  std::vector<named_slot> slots_;
  uint64_t steps_ = 0;
};

} // namespace troupe::models
