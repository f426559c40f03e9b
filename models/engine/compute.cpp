#include "models/engine/compute.hpp"

#include "config/text/failure.hpp"
#include "models/device/accelerator.hpp"
#include "models/device/transfers.hpp"
#include "models/engine/batch_dropout.hpp"
#include "models/engine/guarded.hpp"
#include "models/engine/loss.hpp"
#include "models/engine/segment.hpp"
#include "models/optim/device_mean.hpp"
#include "models/scalar.hpp"

#include <c10/core/StreamGuard.h>
#include <torch/utils.h>

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

namespace troupe::models {

namespace {

uint64_t count_correct(const at::Tensor& scores, const at::Tensor& targets) {
  return static_cast<uint64_t>(
    scores.argmax(1).eq(targets).sum().item<int64_t>());
}

/// With at most so many classes the five highest scores are all scores.
constexpr int64_t most_without_top5 = 5;

uint64_t count_top5(const at::Tensor& scores, const at::Tensor& targets) {
  auto highest = std::get<1>(scores.topk(5, 1));
  return static_cast<uint64_t>(
    highest.eq(targets.unsqueeze(1)).sum().item<int64_t>());
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

  state(const config::training_settings& settings, int64_t classes,
        const at::Tensor& frozen)
    : all(settings, classes, frozen), seed(settings.seed),
      part_size(static_cast<int64_t>(
        settings.micro_batch_size.value_or(uint64_t{1} << 32))),
      loss(settings) {
    if (auto where = device_named(settings.device); !where.is_cpu())
      transfers.emplace(where, all.layout());
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
    all.backward(pass, found, {}, at);
    return found.detach();
  }

  gradient_result run_parts(const at::Tensor& inputs, const at::Tensor& targets,
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
    // The stream that computes is not held up before the gradient is on its
    // way.
    if (transfers)
      transfers->finish_gradient();
    gradient_result result;
    for (const auto& x : losses)
      result.loss += x.item<double>();
    result.samples = static_cast<uint64_t>(count);
    return result;
  }

  gradient_result run_here(const at::Tensor& weights, const at::Tensor& inputs,
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
    there.ready = [this](uint64_t first) {
      transfers->advance(first);
    };
    const auto& near = weights.is_cpu() ? transfers->place_weights(weights)
                                        : weights;
    auto stays = !gradient.is_cpu();
    if (stays)
      there.ready = nullptr; // Nothing goes to the host.
    auto result = run_here(
      near, transfers->place(inputs), transfers->place(targets),
      stays ? gradient : transfers->begin_gradient(gradient, about.ready),
      there);
    if (stays)
      result.finite = all_finite_on_device(gradient);
    return result;
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
               : its.run_here(weights, inputs, targets, gradient, about);
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
    auto& transfers = state_->transfers;
    c10::OptionalStreamGuard guard;
    if (transfers)
      guard.reset_stream(transfers->compute_stream());
    binding bound{state_->all};
    state_->all.bind(transfers && weights.is_cpu()
                       ? transfers->place_weights(weights)
                       : weights);
    torch::NoGradGuard no_grad;
    evaluation_result result;
    uint64_t correct = 0;
    uint64_t among_five = 0;
    auto has_top5 = false;
    at::Tensor inputs;
    at::Tensor targets;
    while (true) {
      if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) {
        return evaluation_result{.cancelled = true};
      }
      if (!next(inputs, targets)) {
        break;
      }
      if (transfers) {
        inputs = transfers->place(inputs);
        targets = transfers->place(targets);
      }
      auto scores = state_->all.score(inputs);
      result.loss += state_->loss.sum(scores, targets).item<double>();
      correct += count_correct(scores, targets);
      has_top5 = scores.size(1) > most_without_top5;
      if (has_top5) {
        among_five += count_top5(scores, targets);
      }
      result.samples += static_cast<uint64_t>(targets.numel());
    }
    if (result.samples > 0) {
      auto n = static_cast<double>(result.samples);
      result.loss /= n;
      result.accuracy = static_cast<double>(correct) / n;
      if (has_top5) {
        result.accuracy_top5 = static_cast<double>(among_five) / n;
      }
    }
    return result;
  });
}

} // namespace troupe::models
