#pragma once
// The base of Troupe's optimisers, and of one of your own: a pass over flat
// buffers that sums the gradients, applies a rule to each block of the mean and
// writes the next weights. The bits do not depend on the number of threads.
// Registered with models/optim/registration.hpp.

#include "config/text/failure.hpp"
#include "models/kernels/kernels.hpp"
#include "models/optim/aggregate.hpp"
#include "models/optim/optimizer_with_slots.hpp"

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
class slotted_optimizer : public optimizer_with_slots {
public:
  slotted_optimizer(const config::training_settings& settings,
                    const flat_layout& layout, parameter_groups groups,
                    std::vector<std::string> slot_names)
    : optimizer_with_slots(settings, layout, std::move(groups),
                           std::move(slot_names)) {
    if (!has_factors())
      merge_parts();
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
    if (has_factors())
      require_factors(factors);
    if (layout().dtype() == config::scalar_type::float64)
      pass<double>(next, {current, gradients, shares, scale, across}, lr,
                   factors);
    else
      pass<float>(next, {current, gradients, shares, scale, across}, lr,
                  factors);
    count_step();
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
      return layout().dtype() == config::scalar_type::float64
               ? first_pass<double>(in)
               : first_pass<float>(in);
    } else {
      return {};
    }
  }

protected:
  /// The memory of a slot, by its place among the names; null if there is none.
  /// A block has its part of it from `first` on.
  template <class T>
  T* slot(size_t i) const {
    return i < own_slots() ? own_slot(i).template mutable_data_ptr<T>()
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

  const Rule& rule() const { return static_cast<const Rule&>(*this); }

  /// Calls `apply(first, end, mean)` on several threads, each with a range of
  /// its own and means of its own.
  template <class T, class What>
  void each_range(const inputs& in, const What& apply) const {
    using mean_type = blocked_mean<T>;
    mean_type fits{in.gradients, in.shares}; // Or throws.
    auto grain = std::max(fits.block(), least_part);
    in.across.each(layout().parameter_count(), grain,
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
    for (const auto& group : groups().terms)
      updates.push_back(rule().template begin<T>(lr * group.lr_factor, group));
    auto update = [&](const group_part& part, block_of_step<T> x) {
      if (!factors.empty())
        x.factor = static_cast<T>(factors[part.parameter]);
      updates[part.group](x);
      average(x);
    };
    auto* to = next.mutable_data_ptr<T>();
    const auto* from = in.current.template const_data_ptr<T>();
    auto streams = to != from && detail::leaves_caches(to, layout().bytes());
    each_range<T>(in, [&](size_t begin, size_t end, blocked_mean<T>& mean) {
      detail::group_cuts cuts{groups().parts};
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
    if (!averages())
      return;
    auto* its = average_slot().template mutable_data_ptr<T>() + x.first;
    if (steps() == 0)
      std::copy_n(x.next, x.count, its);
    else
      kernels::fastest<T>().blend(static_cast<T>(1 - settings().ema_decay), its,
                                  x.next, x.count);
  }

  // Squares are summed in pieces that no cut into shards divides
  // (shard_cuts.hpp), so that the number of shards does not change the sum.
  template <class T>
  std::vector<parameter_squares> first_pass(const inputs& in) {
    constexpr size_t piece = cut_alignment / sizeof(T);
    std::vector<decltype(rule().template first_half<T>(group_terms{}))> rules;
    for (const auto& group : groups().terms)
      rules.push_back(rule().template first_half<T>(group));
    const auto* from = in.current.template const_data_ptr<T>();
    std::vector<parameter_squares> out;
    std::mutex guard;
    each_range<T>(in, [&](size_t begin, size_t end, blocked_mean<T>& mean) {
      std::vector<parameter_squares> found;
      detail::group_cuts cuts{groups().parts};
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
};

} // namespace troupe::models
