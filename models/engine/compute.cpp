#include "models/engine/compute.hpp"

#include "config/text/failure.hpp"
#include "models/engine/batch_dropout.hpp"
#include "models/engine/guarded.hpp"
#include "models/engine/loss.hpp"
#include "models/engine/segment.hpp"
#include "models/scalar.hpp"

#include <torch/utils.h>

#include <algorithm>
#include <tuple>
#include <utility>

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
  explicit binding(segment& x) : segment_(x) {
    // nop
  }

  ~binding() { segment_.end(); }

  binding(const binding&) = delete;
  binding& operator=(const binding&) = delete;

private:
  segment& segment_;
};

} // namespace

struct compute_engine::state {
  segment all;
  uint64_t seed;
  int64_t part_size; ///< Samples that are computed at once.
  training_loss loss;

  state(const config::training_settings& settings, int64_t classes,
        const at::Tensor& frozen)
    : all(settings, classes, frozen), seed(settings.seed),
      part_size(static_cast<int64_t>(
        settings.micro_batch_size.value_or(uint64_t{1} << 32))),
      loss(settings) {
    // nop
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

  /// Computes a part of the batch; returns its share in the mean loss of all.
  double run_part(const at::Tensor& inputs, const at::Tensor& targets,
                  int64_t of, const dropout_key& drop, micro_batch_place at) {
    auto pass = all.forward(inputs, drop, at.first);
    all.wait_for_all();
    torch::AutoGradMode with_grad{true};
    auto found = loss.share(pass.outputs, targets, of);
    all.backward(pass, found, {}, at);
    torch::NoGradGuard no_grad;
    return found.item<double>();
  }

  gradient_result run(const at::Tensor& inputs, const at::Tensor& targets,
                      const batch_context& about) {
    gradient_result result;
    auto count = targets.numel();
    auto of = about.part.of == 0 ? count : static_cast<int64_t>(about.part.of);
    auto before = static_cast<int64_t>(about.part.first);
    for (int64_t first = 0; first == 0 || first < count; first += part_size) {
      auto n = std::min(part_size, count - first);
      result.loss +=
        run_part(inputs.narrow(0, first, n), targets.narrow(0, first, n), of,
                 dropout_of(seed, about.from, before + first),
                 {first == 0, first + n >= count});
    }
    result.samples = static_cast<uint64_t>(count);
    return result;
  }
};

compute_engine::compute_engine(const config::training_settings& settings,
                               int64_t classes, const at::Tensor& frozen) {
  if (settings.device != "cpu") {
    throw usage_error("device '" + settings.device +
                      "' is not supported; there is: cpu");
  }
  state_ = std::make_unique<state>(settings, classes, frozen);
}

compute_engine::~compute_engine() = default;
compute_engine::compute_engine(compute_engine&&) noexcept = default;
compute_engine& compute_engine::operator=(compute_engine&&) noexcept = default;

const flat_layout& compute_engine::layout() const noexcept {
  return state_->all.layout();
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
    binding bound{state_->all};
    try {
      state_->place_statistics(about, weights, gradient);
      segment_batch batch{weights, gradient, layout().statistics_of(gradient),
                          about.cancel};
      batch.arriving = about.arriving ? &about.arriving : nullptr;
      batch.ready = about.ready ? &about.ready : nullptr;
      state_->all.begin(batch);
      return state_->run(inputs, targets, about);
    } catch (const cancelled&) {
      return gradient_result{.cancelled = true};
    }
  });
}

void compute_engine::require_fit(const at::Tensor& flat,
                                 const char* subject) const {
  if (!layout().fits(flat))
    throw run_error(std::string{subject} + " not fit the network: it has " +
                    std::to_string(layout().parameter_count()) + " parameters");
}

evaluation_result compute_engine::evaluate(const at::Tensor& weights,
                                           const batch_source& next,
                                           const std::atomic<bool>* cancel) {
  return guarded("evaluating", [&] {
    binding bound{state_->all};
    state_->all.bind(weights);
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
