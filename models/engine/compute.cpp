#include "models/engine/compute.hpp"

#include "config/text/failure.hpp"
#include "models/device/accelerator.hpp"
#include "models/device/batch_copies.hpp"
#include "models/device/transfers.hpp"
#include "models/engine/batch_dropout.hpp"
#include "models/engine/loss.hpp"
#include "models/engine/loss_scale.hpp"
#include "models/engine/score_sums.hpp"
#include "models/engine/segment.hpp"
#include "models/guarded.hpp"
#include "models/optim/device_mean.hpp"
#include "models/scalar.hpp"

#include <ATen/ops/full.h>
#include <c10/core/StreamGuard.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

namespace troupe::models {

namespace {

at::Tensor count_correct(const at::Tensor& scores, const at::Tensor& targets) {
  return scores.argmax(1).eq(targets).sum();
}

/// With at most so many classes the five highest scores are all scores.
constexpr int64_t most_without_top5 = 5;

at::Tensor count_top5(const at::Tensor& scores, const at::Tensor& targets) {
  auto highest = std::get<1>(scores.topk(5, 1));
  return highest.eq(targets.unsqueeze(1)).sum();
}

bool is_set(const std::atomic<bool>* flag) {
  return flag != nullptr && flag->load(std::memory_order_relaxed);
}

/// Releases weights and gradient however the function is left.
class binding {
public:
  explicit binding(segment& x, device_transfers* transfers = nullptr)
    : segment_(x), transfers_(transfers) {
    // nop
  }

  ~binding() {
    segment_.end();
    if (transfers_ != nullptr)
      transfers_->abandon_gradient();
  }

  binding(const binding&) = delete;
  binding& operator=(const binding&) = delete;

private:
  segment& segment_;
  device_transfers* transfers_;
};

} // namespace

struct compute_engine::state {
  segment all;
  uint64_t seed;
  int64_t part_size; ///< Samples that are computed at once.
  training_loss loss;
  std::optional<device_transfers> transfers; ///< Nothing on the CPU.
  std::optional<batch_copies> copies;        ///< In evaluations on a GPU.
  std::optional<loss_scale> scale;           ///< With fp16 alone.

  state(const config::training_settings& settings, int64_t classes,
        const at::Tensor& frozen)
    : all(settings, classes, frozen), seed(settings.seed),
      part_size(static_cast<int64_t>(
        settings.micro_batch_size.value_or(uint64_t{1} << 32))),
      loss(settings) {
    if (auto where = device_named(settings.device); !where.is_cpu())
      transfers.emplace(where, all.layout());
    if (settings.autocast == config::autocast_kind::fp16)
      scale.emplace();
  }

  /// Copies the statistics to start from to the end of the gradient, where
  /// forward changes them.
  void place_statistics(const batch_context& about, const at::Tensor& weights,
                        const at::Tensor& gradient) {
    const auto& layout = all.layout();
    if (layout.statistics().empty())
      return;
    auto size = size_of(layout.dtype());
    if (about.arriving && !about.statistics.defined() &&
        !about.arriving(layout.parameter_count() * size, layout.bytes()))
      throw cancelled{};
    torch::NoGradGuard no_grad;
    layout.statistics_of(gradient).copy_(about.statistics.defined()
                                           ? about.statistics
                                           : layout.statistics_of(weights));
  }

  /// Computes a part of the batch; returns its share in the mean loss of all,
  /// which a device may still have to compute.
  at::Tensor run_part(const at::Tensor& inputs, const at::Tensor& targets,
                      int64_t of, const dropout_key& drop,
                      micro_batch_place at) {
    auto pass = all.forward(inputs, drop, at.first);
    all.wait_for_all();
    torch::AutoGradMode with_grad{true};
    auto found = loss.share(pass.outputs, targets, of);
    at::Tensor factor;
    if (scale)
      factor = at::full(found.sizes(), scale->value(), found.options());
    all.backward(pass, found, factor, at);
    return found.detach();
  }

  /// Returns the losses of the parts.
  std::vector<at::Tensor> run_parts(const at::Tensor& inputs,
                                    const at::Tensor& targets,
                                    const batch_context& about) {
    std::vector<at::Tensor> losses;
    auto count = targets.numel();
    auto of = about.part.of == 0 ? count : static_cast<int64_t>(about.part.of);
    auto before = static_cast<int64_t>(about.part.first);
    for (int64_t first = 0; first == 0 || first < count; first += part_size) {
      auto n = std::min(part_size, count - first);
      losses.push_back(run_part(inputs.narrow(0, first, n),
                                targets.narrow(0, first, n), of,
                                dropout_of(seed, about.from, before + first),
                                {first == 0, first + n >= count}));
    }
    return losses;
  }

  std::vector<at::Tensor> run_here(const at::Tensor& weights,
                                   const at::Tensor& inputs,
                                   const at::Tensor& targets,
                                   const at::Tensor& gradient,
                                   const batch_context& about) {
    place_statistics(about, weights, gradient);
    segment_batch batch{weights, gradient, all.layout().statistics_of(gradient),
                        about.cancel};
    batch.arriving = about.arriving ? &about.arriving : nullptr;
    batch.ready = about.ready ? &about.ready : nullptr;
    all.begin(batch);
    return run_parts(inputs, targets, about);
  }

  gradient_result run_on_host(const at::Tensor& weights,
                              const at::Tensor& inputs,
                              const at::Tensor& targets,
                              const at::Tensor& gradient,
                              const batch_context& about) {
    if (scale)
      throw run_error("--autocast fp16 needs a GPU");
    gradient_result result;
    for (const auto& x : run_here(weights, inputs, targets, gradient, about))
      result.loss += x.item<double>();
    result.samples = static_cast<uint64_t>(targets.numel());
    return result;
  }

  /// The same over copies on the device; all weights must have arrived.
  gradient_result run_on_device(const at::Tensor& weights,
                                const at::Tensor& inputs,
                                const at::Tensor& targets,
                                const at::Tensor& gradient,
                                const batch_context& about) {
    if (about.arriving && !about.arriving(0, all.layout().bytes()))
      throw cancelled{};
    c10::StreamGuard guard{transfers->compute_stream()};
    auto there = about;
    there.arriving = nullptr;
    there.ready = nullptr;
    auto near = transfers->place_weights(weights);
    if (about.arrived)
      about.arrived->block(transfers->compute_stream());
    auto x = about.arrived ? inputs : transfers->place(inputs);
    auto y = about.arrived ? targets : transfers->place(targets);
    if (scale) {
      auto result = run_scaled(near, x, y, gradient, there);
      if (about.ready)
        about.ready(0);
      return result;
    }
    there.ready = [this](uint64_t first) {
      transfers->advance(first);
    };
    auto made = transfers->begin_gradient(gradient, about.ready);
    // The stream that computes is not held up before the gradient is on its
    // way.
    auto numbers = run_here(near, x, y, made, there);
    auto stays = !gradient.is_cpu();
    if (stays)
      numbers.push_back(largest_on_device(made));
    auto sent = transfers->send_numbers(numbers);
    transfers->finish_gradient();
    auto found = sent.read();
    std::optional<bool> finite;
    if (stays) {
      finite = std::isfinite(found.back());
      found.pop_back();
    }
    auto result = result_of(found, y);
    result.finite = finite;
    transfers->note_computed();
    return result;
  }

  static gradient_result result_of(const std::vector<double>& losses,
                                   const at::Tensor& targets) {
    gradient_result out;
    for (auto loss : losses)
      out.loss += loss;
    out.samples = static_cast<uint64_t>(targets.numel());
    return out;
  }

  /// In half precision, until the gradient is finite: a batch whose gradient
  /// overflows is computed again at a smaller scale, from the same statistics.
  gradient_result run_scaled(const at::Tensor& weights, const at::Tensor& x,
                             const at::Tensor& y, const at::Tensor& gradient,
                             const batch_context& about) {
    for (uint32_t overflows = 0;; ++overflows) {
      auto made = transfers->begin_gradient(gradient, nullptr);
      auto numbers = run_here(weights, x, y, made, about);
      numbers.push_back(
        unscale({all.layout().parameters_of(made)}, scale->value()));
      transfers->advance(0);
      auto sent = transfers->send_numbers(numbers);
      transfers->finish_gradient();
      auto found = sent.read();
      auto overflow = found.back() != 0;
      found.pop_back();
      if (overflow) {
        scale->overflow();
        continue;
      }
      auto out = result_of(found, y);
      out.scale = scale->value();
      out.overflows = overflows;
      scale->succeed();
      transfers->note_computed();
      return out;
    }
  }

  /// The sum of the losses, the number of right answers and, with more than
  /// five classes, of those among the five highest scores.
  std::vector<at::Tensor> score_batch(const at::Tensor& inputs,
                                      const at::Tensor& targets) {
    auto scores = all.score(inputs);
    std::vector<at::Tensor> out{loss.sum(scores, targets),
                                count_correct(scores, targets)};
    if (scores.size(1) > most_without_top5)
      out.push_back(count_top5(scores, targets));
    return out;
  }

  evaluation_result score_on_host(const at::Tensor& weights,
                                  const batch_source& next,
                                  const std::atomic<bool>* cancel) {
    all.bind(weights);
    score_sums sums;
    at::Tensor inputs;
    at::Tensor targets;
    while (!is_set(cancel)) {
      if (!next(inputs, targets))
        return sums.mean();
      std::vector<double> found;
      for (const auto& x : score_batch(inputs, targets))
        found.push_back(x.item<double>());
      sums.add(found, targets);
    }
    return {.cancelled = true};
  }

  /// The host reads the numbers of a batch when it has enqueued the next one,
  /// and keeps the batch until then.
  evaluation_result score_on_device(const at::Tensor& weights,
                                    const batch_source& next,
                                    const std::atomic<bool>* cancel) {
    auto stream = transfers->compute_stream();
    c10::StreamGuard guard{stream};
    if (!copies)
      copies.emplace(transfers->device());
    all.bind(transfers->place_weights(weights));
    std::deque<std::pair<copied_batch, arriving_numbers>> under_way;
    score_sums sums;
    auto take_first = [&] {
      const auto& [batch, numbers] = under_way.front();
      sums.add(numbers.read(), batch.targets);
      under_way.pop_front();
    };
    at::Tensor inputs;
    at::Tensor targets;
    while (!is_set(cancel)) {
      if (under_way.size() > 1)
        take_first();
      if (!next(inputs, targets)) {
        while (!under_way.empty())
          take_first();
        transfers->note_computed();
        return sums.mean();
      }
      auto there = copies->place(inputs, targets);
      there.arrived->block(stream);
      std::vector<at::Tensor> found;
      for (const auto& x : score_batch(there.inputs, there.targets))
        found.push_back(x.to(at::kDouble));
      under_way.emplace_back(std::move(there), transfers->send_numbers(found));
    }
    return {.cancelled = true};
  }
};

compute_engine::compute_engine(const config::training_settings& settings,
                               int64_t classes, const at::Tensor& frozen) {
  guarded("preparing the network",
          [&] { state_ = std::make_unique<state>(settings, classes, frozen); });
}

compute_engine::~compute_engine() = default;
compute_engine::compute_engine(compute_engine&&) noexcept = default;
compute_engine& compute_engine::operator=(compute_engine&&) noexcept = default;

const flat_layout& compute_engine::layout() const noexcept {
  return state_->all.layout();
}

c10::Device compute_engine::device() const noexcept {
  const auto& transfers = state_->transfers;
  return transfers ? transfers->device() : c10::Device{c10::kCPU};
}

std::optional<c10::Stream> compute_engine::stream() const noexcept {
  const auto& transfers = state_->transfers;
  return transfers ? std::optional{transfers->compute_stream()} : std::nullopt;
}

void compute_engine::initial_weights(const at::Tensor& flat, uint64_t seed) {
  guarded("drawing the initial weights", [&] {
    binding bound{state_->all};
    state_->all.bind(flat);
    initialise(state_->all.net(), seed);
  });
}

gradient_result compute_engine::run(const at::Tensor& weights,
                                    const at::Tensor& inputs,
                                    const at::Tensor& targets,
                                    const at::Tensor& gradient,
                                    const batch_context& about) {
  require_fit(weights, "the weights do");
  require_fit(gradient, "the buffer for the gradient does");
  return guarded("computing a gradient", [&] {
    auto& its = *state_;
    binding bound{its.all, its.transfers ? &*its.transfers : nullptr};
    try {
      return its.transfers
               ? its.run_on_device(weights, inputs, targets, gradient, about)
               : its.run_on_host(weights, inputs, targets, gradient, about);
    } catch (const cancelled&) {
      return gradient_result{.cancelled = true};
    }
  });
}

void compute_engine::require_fit(const at::Tensor& flat,
                                 const char* subject) const {
  if (!layout().fits(flat) && !layout().fits(flat, device()))
    throw run_error(std::string{subject} + " not fit the network: it has " +
                    std::to_string(layout().parameter_count()) + " parameters");
}

evaluation_result compute_engine::evaluate(const at::Tensor& weights,
                                           const batch_source& next,
                                           const std::atomic<bool>* cancel) {
  return guarded("evaluating", [&] {
    auto& its = *state_;
    binding bound{its.all, its.transfers ? &*its.transfers : nullptr};
    torch::NoGradGuard no_grad;
    return its.transfers ? its.score_on_device(weights, next, cancel)
                         : its.score_on_host(weights, next, cancel);
  });
}

} // namespace troupe::models
