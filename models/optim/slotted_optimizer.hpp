#pragma once
// What an optimiser of Troupe is made of, and one of your own: a pass over flat
// buffers that sums the gradients, applies a rule to each block of the mean and
// writes the next weights, with the bits of any number of threads. Registered
// with models/optim/registration.hpp.

#include "config/text/failure.hpp"
#include "models/kernels/kernels.hpp"
#include "models/optim/aggregate.hpp"
#include "models/optim/optimizer.hpp"
#include "models/scalar.hpp"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>
#include <bit>
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

namespace detail {

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
inline bool leaves_caches(const void* next, uint64_t bytes) {
  constexpr uint64_t cached = 4u << 20;
  return bytes > cached &&
         std::bit_cast<uintptr_t>(next) % kernels::stream_alignment == 0;
}

} // namespace detail

/// What the optimisers share: settings, named slots of zeros and the count of
/// steps. A `Rule` derives from it and has
///
///   template <class T> auto begin(double lr) const;
///
/// which gives what is done with each block of a step, a function of a
/// `const block_of_step<T>&`. Several threads call it at a time, each with
/// blocks of its own, and a shard with its own range of the weights alone: an
/// element's next value may depend on the element's numbers only.
template <class Rule>
class slotted_optimizer : public optimizer {
public:
  /// @param without_decay Ranges without weight decay, in order.
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

  /// The memory of a slot; null if there is none. A block has its part of it
  /// from `first` on.
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
    auto streams = to != from && detail::leaves_caches(to, layout_.bytes());
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
    detail::decay_cuts cuts{without_decay_};
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

} // namespace troupe::models
