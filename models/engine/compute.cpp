#include "models/engine/compute.hpp"

#include "config/text/failure.hpp"
#include "models/engine/arriving_weights.hpp"
#include "models/network.hpp"
#include "models/scalar.hpp"

#include <ATen/autocast_mode.h>
#include <torch/autograd.h>
#include <torch/nn/module.h>
#include <torch/utils.h>

#include <algorithm>
#include <exception>
#include <tuple>
#include <utility>
#include <vector>

namespace troupe::models {

namespace {

/// Ends a computation whose result is no longer needed. Derived from
/// std::exception because autograd's engine passes on nothing else.
struct cancelled : std::exception {
  const char* what() const noexcept override { return "cancelled"; }
};

void check(const std::atomic<bool>* cancel) {
  if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) {
    throw cancelled{};
  }
}

/// What LibTorch throws becomes one line.
template <class F>
auto guarded(const char* what, F&& f) {
  try {
    return f();
  } catch (const c10::Error& error) {
    std::string text = error.what_without_backtrace();
    throw run_error(std::string{what} +
                    " failed: " + text.substr(0, text.find('\n')));
  }
}

/// The same values with channels last in memory, in which LibTorch's
/// convolutions and pools are faster (LeNet: 1.6 times). No copy for images of
/// one channel, whose memory is the same either way.
at::Tensor channels_last(const at::Tensor& inputs) {
  if (inputs.dim() != 4 || inputs.size(1) != 1 || !inputs.is_contiguous()) {
    return inputs.dim() == 4 ? inputs.contiguous(at::MemoryFormat::ChannelsLast)
                             : inputs;
  }
  auto height = inputs.size(2);
  auto width = inputs.size(3);
  return inputs.as_strided(inputs.sizes(), {height * width, 1, width, 1});
}

uint64_t count_correct(const at::Tensor& scores, const at::Tensor& targets) {
  return static_cast<uint64_t>(
    scores.argmax(1).eq(targets).sum().item<int64_t>());
}

/// With so many classes the five highest are not all.
constexpr int64_t most_without_top5 = 5;

uint64_t count_top5(const at::Tensor& scores, const at::Tensor& targets) {
  auto highest = std::get<1>(scores.topk(5, 1));
  return static_cast<uint64_t>(
    highest.eq(targets.unsqueeze(1)).sum().item<int64_t>());
}

/// Convolutions and products of this thread are in bfloat16 while it lives.
class bfloat16_forward {
public:
  explicit bfloat16_forward(bool on) : on_(on) {
    if (!on_)
      return;
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    at::autocast::set_autocast_enabled(at::kCPU, true);
  }

  ~bfloat16_forward() {
    if (!on_)
      return;
    at::autocast::set_autocast_enabled(at::kCPU, false);
    at::autocast::clear_cache(); // Of weights, which others will follow.
  }

  bfloat16_forward(const bfloat16_forward&) = delete;
  bfloat16_forward& operator=(const bfloat16_forward&) = delete;

private:
  bool on_;
};

} // namespace

struct compute_engine::state {
  std::shared_ptr<network> net;
  flat_layout layout;
  std::vector<at::Tensor> parameters;
  std::vector<at::Tensor> statistics;
  std::vector<at::Tensor> frozen;
  /// Layers that normalise by their frozen statistics while others train; outer
  /// ones first.
  std::vector<torch::nn::Module*> still;
  std::optional<bool> training; ///< The mode that the others are in.
  uint64_t seed;
  /// Bound in place of the weights between two calls, to release the version.
  at::Tensor nothing;
  /// Where the gradients of the batch in hand belong, in the order of the
  /// parameters, and which of them are there.
  gradient_places places;
  std::vector<bool> written;
  std::vector<bool> settled; ///< Those that nothing is added to any more.
  bool adds = false;  ///< To what lies there: not the first part of a batch.
  bool ends = false;  ///< Of the parts of a batch the last.
  size_t missing = 0; ///< Parameters before those whose gradients are final.
  int64_t part_size;  ///< Samples that are computed at once.
  double smoothing;
  bool bfloat16;
  const std::atomic<bool>* cancel = nullptr;
  at::Tensor flat; ///< The weights in hand.
  const weights_wait* arriving = nullptr;
  const std::function<void(uint64_t)>* ready = nullptr;

  state(const config::training_settings& settings, int64_t classes)
    : net(make_network(settings.network, classes, settings.dtype)),
      layout(flat_layout::from(net->module(),
                               config::parse_key_patterns(settings.freeze))),
      parameters(tensors_of(net->module(), layout.slots(), settings.dtype)),
      statistics(
        tensors_of(net->module(), layout.statistics(), settings.dtype)),
      frozen(tensors_of(net->module(), layout.frozen(), settings.dtype)),
      seed(settings.seed), nothing(at::empty({0}, to_aten(settings.dtype))),
      part_size(static_cast<int64_t>(
        settings.micro_batch_size.value_or(uint64_t{1} << 32))),
      smoothing(settings.label_smoothing),
      bfloat16(settings.autocast == config::autocast_kind::bf16) {
    for (size_t i = 0; i < parameters.size(); ++i) {
      parameters[i].register_hook(
        [this, i](const at::Tensor& x) { take_gradient(i, x); });
    }
    for (auto& x : frozen) {
      x.set_requires_grad(false);
    }
    if (has_frozen_statistics(net->module())) {
      still.push_back(&net->module());
    }
    for (const auto& layer : net->module().modules(/*include_self=*/false)) {
      if (has_frozen_statistics(*layer)) {
        still.push_back(layer.get());
      }
    }
    set_training(true);
    unbind();
  }

  bool has_frozen_statistics(const torch::nn::Module& layer) const {
    auto own = layer.buffers(/*recurse=*/false);
    return std::ranges::any_of(own, [this](const at::Tensor& buffer) {
      return std::ranges::any_of(
        frozen, [&](const at::Tensor& x) { return x.is_same(buffer); });
    });
  }

  /// For good.
  void bind_frozen(const at::Tensor& flat) {
    if (!layout.fits_frozen(flat)) {
      throw run_error("the frozen weights do not fit the network");
    }
    for (size_t i = 0; i < frozen.size(); ++i) {
      frozen[i].set_data(layout.view(flat, layout.frozen()[i]));
    }
  }

  /// Runs in backward as soon as all of parameter i's gradient is there: in
  /// its place already, or where LibTorch put it.
  void take_gradient(size_t i, const at::Tensor& x) {
    check(cancel);
    const auto& place = places[i];
    if (x.const_data_ptr() != place.const_data_ptr()) {
      torch::NoGradGuard no_grad;
      if (adds && written[i])
        place.add_(x);
      else
        place.copy_(x);
    }
    written[i] = true;
    if (ends && ready)
      tell_ready(i);
  }

  /// The gradient of parameter i is final; those behind it may have waited.
  void tell_ready(size_t i) {
    settled[i] = true;
    auto before = missing;
    while (missing > 0 && settled[missing - 1])
      --missing;
    if (missing < before)
      (*ready)(layout.slots()[missing].offset);
  }

  void bind(const at::Tensor& weights) {
    if (!layout.fits(weights)) {
      throw run_error("the weights do not fit the network: it has " +
                      std::to_string(layout.parameter_count()) + " parameters");
    }
    for (size_t i = 0; i < parameters.size(); ++i) {
      parameters[i].set_data(layout.view(weights, layout.slots()[i]));
    }
    bind_statistics(weights);
  }

  void bind_statistics(const at::Tensor& flat) {
    for (size_t i = 0; i < statistics.size(); ++i) {
      statistics[i].set_data(layout.view(flat, layout.statistics()[i]));
    }
  }

  /// For these elements of the weights.
  void wait_for(uint64_t first, uint64_t last) {
    auto size = size_of(layout.dtype());
    if (arriving && !(*arriving)(first * size, last * size))
      throw cancelled{};
  }

  /// Forward changes them where the gradient lies.
  void place_statistics(const at::Tensor& given, const at::Tensor& weights,
                        const at::Tensor& gradient) {
    if (statistics.empty()) {
      return;
    }
    if (arriving && !given.defined()) {
      wait_for(layout.parameter_count(), layout.count());
    }
    torch::NoGradGuard no_grad;
    layout.statistics_of(gradient).copy_(
      given.defined() ? given : layout.statistics_of(weights));
    bind_statistics(gradient);
  }

  /// Normalise by the batch, or by the running statistics?
  void set_training(bool on) {
    if (training == on) {
      return;
    }
    training = on;
    net->module().train(on);
    for (auto* layer : still) {
      layer->eval();
      for (const auto& inner : layer->children()) {
        inner->train(on);
      }
    }
  }

  void unbind() {
    for (auto& x : parameters) {
      x.set_data(nothing);
    }
    for (auto& x : statistics) {
      x.set_data(nothing);
    }
    places.clear();
    adds = false;
    cancel = nullptr;
    flat.reset();
    arriving = nullptr;
    ready = nullptr;
  }

  void place_gradients(const at::Tensor& gradient) {
    for (size_t i = 0; i < parameters.size(); ++i) {
      places.set(parameters[i], layout.view(gradient, layout.slots()[i]));
    }
  }

  void backward(const at::Tensor& loss) {
    torch::autograd::grad({loss}, parameters, {}, /*retain_graph=*/std::nullopt,
                          /*create_graph=*/false, /*allow_unused=*/true);
  }

  /// Layers that write their gradients in place would overwrite those of the
  /// parts before, and do not know of other types.
  at::Tensor forward(const at::Tensor& inputs, const dropout_key& drop) {
    static const gradient_places nowhere;
    waits_for_weights waits{arriving, flat};
    bfloat16_forward cluster{bfloat16};
    auto scores = net->forward(channels_last(inputs),
                               adds || bfloat16 ? nowhere : places, drop);
    return bfloat16 ? scores.to(at::kFloat) : scores;
  }

  /// The share of a part of the batch in the mean loss of all.
  double run_part(const at::Tensor& inputs, const at::Tensor& targets,
                  int64_t all, const dropout_key& drop) {
    check(cancel);
    auto scores = forward(inputs, drop);
    wait_for(0, layout.count());
    auto whole = targets.numel() == all;
    auto loss = at::cross_entropy_loss(
      scores, targets, {}, whole ? at::Reduction::Mean : at::Reduction::Sum,
      /*ignore_index=*/-100, smoothing);
    if (!whole) {
      loss = loss / all;
    }
    check(cancel);
    backward(loss);
    torch::NoGradGuard no_grad;
    return loss.item<double>();
  }

  gradient_result run(const at::Tensor& inputs, const at::Tensor& targets,
                      const lease& from) {
    gradient_result result;
    auto all = targets.numel();
    written.assign(parameters.size(), false);
    settled.assign(parameters.size(), false);
    missing = parameters.size();
    for (int64_t first = 0; first == 0 || first < all; first += part_size) {
      auto n = std::min(part_size, all - first);
      adds = first > 0;
      ends = first + n >= all;
      // The masks of a sample depend on its position in the epoch, and on the
      // part of the data that it belongs to.
      dropout_key drop{seed + from.part * 0x9e3779b97f4a7c15, from.epoch,
                       from.first + static_cast<uint64_t>(first)};
      result.loss += run_part(inputs.narrow(0, first, n),
                              targets.narrow(0, first, n), all, drop);
    }
    torch::NoGradGuard no_grad;
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (!written[i]) {
        places[i].zero_();
      }
    }
    if (ready) {
      (*ready)(0);
    }
    result.samples = static_cast<uint64_t>(all);
    return result;
  }
};

namespace {

/// Releases weights and gradient however the function is left.
template <class State>
class binding {
public:
  binding(State& x, const at::Tensor& weights) : state_(x) {
    state_.bind(weights);
  }

  ~binding() { state_.unbind(); }

  binding(const binding&) = delete;
  binding& operator=(const binding&) = delete;

private:
  State& state_;
};

} // namespace

compute_engine::compute_engine(const config::training_settings& settings,
                               int64_t classes, const at::Tensor& frozen) {
  if (settings.device != "cpu") {
    throw usage_error("device '" + settings.device +
                      "' is not supported; there is: cpu");
  }
  state_ = std::make_unique<state>(settings, classes);
  if (frozen.defined()) {
    state_->bind_frozen(frozen);
  }
}

compute_engine::~compute_engine() = default;
compute_engine::compute_engine(compute_engine&&) noexcept = default;
compute_engine& compute_engine::operator=(compute_engine&&) noexcept = default;

const flat_layout& compute_engine::layout() const noexcept {
  return state_->layout;
}

void compute_engine::initial_weights(const at::Tensor& flat, uint64_t seed) {
  guarded("drawing the initial weights", [&] {
    binding bound{*state_, flat};
    initialise(*state_->net, seed);
  });
}

gradient_result compute_engine::run(const at::Tensor& weights,
                                    const at::Tensor& inputs,
                                    const at::Tensor& targets,
                                    const at::Tensor& gradient,
                                    const std::atomic<bool>* cancel,
                                    const batch_context& about) {
  if (!layout().fits(gradient)) {
    throw run_error("the buffer for the gradient does not fit the network: it "
                    "has " +
                    std::to_string(layout().parameter_count()) + " parameters");
  }
  return guarded("computing a gradient", [&] {
    binding bound{*state_, weights};
    state_->flat = weights;
    state_->arriving = about.arriving ? &about.arriving : nullptr;
    state_->ready = about.ready ? &about.ready : nullptr;
    state_->place_gradients(gradient);
    state_->cancel = cancel;
    state_->set_training(true);
    torch::AutoGradMode with_grad{true};
    try {
      state_->place_statistics(about.statistics, weights, gradient);
      return state_->run(inputs, targets, about.from);
    } catch (const cancelled&) {
      return gradient_result{.cancelled = true};
    }
  });
}

evaluation_result compute_engine::evaluate(const at::Tensor& weights,
                                           const batch_source& next,
                                           const std::atomic<bool>* cancel) {
  return guarded("evaluating", [&] {
    binding bound{*state_, weights};
    state_->set_training(false);
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
      auto scores = state_->net->forward(channels_last(inputs));
      auto loss =
        at::cross_entropy_loss(scores, targets, {}, at::Reduction::Sum);
      result.loss += loss.item<double>();
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
