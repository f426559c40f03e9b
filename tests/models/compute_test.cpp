#include "config/text/failure.hpp"
#include "models/engine/compute.hpp"
#include "models/network.hpp"
#include "tests/support/error_line.hpp"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <ATen/record_function.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <utility>

using namespace troupe;
using namespace troupe::models;
using namespace troupe::test;

using Catch::Approx;
using Catch::Matchers::ContainsSubstring;

namespace {

config::training_settings settings_for(config::scalar_type dtype) {
  config::training_settings s;
  s.dtype = dtype;
  return s;
}

/// An engine with weights, a batch, and a place for the gradient.
struct fixture {
  explicit fixture(config::scalar_type dtype = config::scalar_type::float64)
    : engine(settings_for(dtype), 10), weights(flat()), gradient(flat()),
      inputs(at::randn({6, 1, 28, 28}, to_aten(dtype))),
      targets(at::tensor({3, 1, 4, 1, 5, 9}, at::kLong)) {
    engine.initial_weights(weights, 1);
    gradient.fill_(std::numeric_limits<double>::quiet_NaN());
  }

  at::Tensor flat() const {
    return at::empty({static_cast<int64_t>(engine.layout().count())},
                     to_aten(engine.layout().dtype()));
  }

  at::Tensor scores() const {
    auto net = make_network("lenet", 10, engine.layout().dtype());
    bind_parameters(net->module(), engine.layout(), weights);
    return net->forward(inputs);
  }

  gradient_result run(const std::atomic<bool>* cancel = nullptr) {
    return engine.run(weights, inputs, targets, gradient, {.cancel = cancel});
  }

  compute_engine engine;
  at::Tensor weights;
  at::Tensor gradient;
  at::Tensor inputs;
  at::Tensor targets;
};

/// Sets `flag` when backward on this thread comes to the function `name`.
class cancel_in_backward {
public:
  explicit cancel_in_backward(const char* name) {
    target = this;
    name_ = name;
    handle_ = at::addThreadLocalCallback(
      at::RecordFunctionCallback(on_function)
        .scopes({at::RecordScope::BACKWARD_FUNCTION}));
  }

  ~cancel_in_backward() { at::removeCallback(handle_); }

  cancel_in_backward(const cancel_in_backward&) = delete;
  cancel_in_backward& operator=(const cancel_in_backward&) = delete;

  std::atomic<bool> flag = false;

private:
  static std::unique_ptr<at::ObserverContext>
  on_function(const at::RecordFunction& f) {
    if (f.name() == target->name_) {
      target->flag = true;
    }
    return nullptr;
  }

  static inline cancel_in_backward* target = nullptr;
  std::string name_;
  at::CallbackHandle handle_;
};

/// The largest block that LibTorch takes on this thread while it lives.
class largest_allocation {
public:
  uint64_t bytes() const { return seen_->largest; }

private:
  struct listener : c10::MemoryReportingInfoBase {
    void reportMemoryUsage(void*, int64_t bytes, size_t, size_t,
                           c10::Device) override {
      largest =
        std::max(largest, static_cast<uint64_t>(std::max<int64_t>(bytes, 0)));
    }

    bool memoryProfilingEnabled() const override { return true; }

    uint64_t largest = 0;
  };

  std::shared_ptr<listener> seen_ = std::make_shared<listener>();
  c10::DebugInfoGuard guard_{c10::DebugInfoKind::PROFILER_STATE, seen_};
};

/// Loss and gradient as plain LibTorch computes them.
std::pair<at::Tensor, at::Tensor> reference(const fixture& f) {
  auto net = make_network("lenet", 10, f.engine.layout().dtype());
  const auto& layout = f.engine.layout();
  bind_parameters(net->module(), layout, f.weights.clone());
  auto gradient = at::zeros_like(f.weights);
  bind_gradients(net->module(), layout, gradient);
  auto loss = at::cross_entropy_loss(net->forward(f.inputs), f.targets);
  loss.backward();
  return {loss.detach(), gradient};
}

} // namespace

TEST_CASE("a gradient is the one that plain LibTorch computes", "[compute]") {
  auto dtype = config::scalar_type::float64;
  auto tolerance = 1e-10;
  SECTION("float64") {}
  SECTION("float32") {
    dtype = config::scalar_type::float32;
    tolerance = 1e-5;
  }
  fixture f{dtype};
  auto result = f.run();
  auto [loss, gradient] = reference(f);
  CHECK_FALSE(result.cancelled);
  CHECK(result.samples == 6);
  CHECK(result.loss == Approx(loss.item<double>()));
  CHECK(at::allclose(f.gradient, gradient, tolerance, tolerance));
}

TEST_CASE("a gradient agrees with finite differences", "[compute]") {
  fixture f;
  f.run();
  for (const auto& slot : f.engine.layout().slots()) {
    auto i = static_cast<int64_t>(slot.offset + slot.count / 2);
    auto computed = f.gradient[i].item<double>();
    auto loss_at = [&](double shift) {
      auto weights = f.weights.clone();
      weights[i] += shift;
      return f.engine.run(weights, f.inputs, f.targets, f.flat()).loss;
    };
    constexpr double h = 1e-6;
    CHECK(computed ==
          Approx((loss_at(h) - loss_at(-h)) / (2 * h)).margin(1e-8));
  }
}

TEST_CASE("fully connected layers write gradients where they belong",
          "[compute]") {
  fixture f{config::scalar_type::float32};
  largest_allocation largest;
  f.run();
  const auto& fc1 = f.engine.layout().slots()[4];
  CHECK(fc1.name == "fc1.weight");
  CHECK(largest.bytes() > 0);
  CHECK(largest.bytes() < fc1.count * sizeof(float));
}

TEST_CASE("the same input gives the same bits", "[compute]") {
  fixture f{config::scalar_type::float32};
  auto first = f.run();
  auto gradient = f.gradient.clone();
  auto second = f.run();
  CHECK(first.loss == second.loss);
  CHECK(at::equal(gradient, f.gradient));
}

TEST_CASE("weights are read in place and let go", "[compute]") {
  fixture f;
  bool freed = false;
  auto memory = f.weights.clone();
  auto weights = at::from_blob(
    memory.mutable_data_ptr(), memory.sizes(), [&](void*) { freed = true; },
    at::kDouble);
  f.engine.run(weights, f.inputs, f.targets, f.gradient);
  CHECK(weights.storage().use_count() == 1);
  CHECK(f.gradient.storage().use_count() == 1);
  CHECK(at::equal(memory, f.weights));
  weights.reset();
  CHECK(freed);
}

TEST_CASE("a cancelled computation ends and leaves a usable engine",
          "[compute]") {
  fixture f;
  std::atomic<bool> cancel = true;
  CHECK(f.run(&cancel).cancelled);
  CHECK(f.gradient.isnan().all().item<bool>());
  CHECK(f.weights.storage().use_count() == 1);
  cancel = false;
  auto result = f.run(&cancel);
  CHECK_FALSE(result.cancelled);
  CHECK(at::allclose(f.gradient, reference(f).second, 1e-10, 1e-10));
}

TEST_CASE("backward is cancelled at the next parameter", "[compute]") {
  fixture f;
  cancel_in_backward cancel{"ConvolutionBackward0"};
  CHECK(f.run(&cancel.flag).cancelled);
  const auto& slots = f.engine.layout().slots();
  auto all = [&](size_t i, auto value) {
    return (f.engine.layout().view(f.gradient, slots[i]).*value)()
      .all()
      .template item<bool>();
  };
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].name.starts_with("fc")) {
      CHECK(all(i, &at::Tensor::isfinite));
    } else {
      CHECK(all(i, &at::Tensor::isnan));
    }
  }
}

TEST_CASE("weights are scored over all batches", "[compute]") {
  fixture f;
  std::vector<std::pair<int64_t, int64_t>> ranges{{0, 4}, {4, 2}};
  size_t next = 0;
  auto result = f.engine.evaluate(f.weights, [&](auto& inputs, auto& targets) {
    if (next == ranges.size()) {
      return false;
    }
    auto [first, count] = ranges[next++];
    inputs = f.inputs.narrow(0, first, count);
    targets = f.targets.narrow(0, first, count);
    return true;
  });
  auto whole = f.run();
  CHECK_FALSE(result.cancelled);
  CHECK(result.samples == 6);
  CHECK(result.loss == Approx(whole.loss));
  auto correct = f.scores().argmax(1).eq(f.targets).sum().item<int64_t>();
  CHECK(result.accuracy == Approx(static_cast<double>(correct) / 6));
  CHECK(f.weights.storage().use_count() == 1);
}

TEST_CASE("scoring can be cancelled and can be of nothing", "[compute]") {
  fixture f;
  std::atomic<bool> cancel = true;
  auto none = [](auto&, auto&) {
    return false;
  };
  CHECK(f.engine.evaluate(f.weights, none, &cancel).cancelled);
  CHECK(f.engine.evaluate(f.weights, none).samples == 0);
}

TEST_CASE("what does not fit is one clear line", "[compute]") {
  fixture f;
  auto run = [&](const at::Tensor& weights, const at::Tensor& inputs,
                 const at::Tensor& gradient) {
    return error_line<run_error>(
      [&] { f.engine.run(weights, inputs, f.targets, gradient); });
  };
  CHECK(run(f.weights.slice(0, 1), f.inputs, f.gradient) ==
        "the weights do not fit the network: it has 431080 parameters");
  CHECK_THAT(run(f.weights, f.inputs, f.gradient.slice(0, 1)),
             ContainsSubstring("the buffer for the gradient does not fit"));
  auto line = run(f.weights, at::zeros({6, 1, 9, 9}, at::kDouble), f.gradient);
  CHECK_THAT(line, ContainsSubstring("computing a gradient failed: ") &&
                     !ContainsSubstring("\n"));
  CHECK_FALSE(f.run().cancelled);
}

TEST_CASE("unknown networks and devices are the user's error", "[compute]") {
  config::training_settings s;
  s.device = "tpu";
  CHECK_THROWS_AS(compute_engine(s, 10), usage_error);
  s.device = "cpu";
  s.network = "alexnet";
  CHECK_THROWS_AS(compute_engine(s, 10), usage_error);
}

// -- recipes ------------------------------------------------------------------

namespace {

/// The engine of other settings, on the weights and batch of a fixture.
struct other_engine {
  other_engine(const fixture& f, const config::training_settings& s)
    : engine(s, 10), gradient(at::full_like(f.weights, 7)), from(f) {
    // nop
  }

  gradient_result run(const std::atomic<bool>* cancel = nullptr) {
    return engine.run(from.weights, from.inputs, from.targets, gradient,
                      {.from = lease{lease_id{1}, 2, 30, 6}, .cancel = cancel});
  }

  compute_engine engine;
  at::Tensor gradient;
  const fixture& from;
};

/// Counts operators whose first input has this type, on this thread.
class operators_of_type {
public:
  explicit operators_of_type(at::ScalarType type) {
    target = this;
    type_ = type;
    handle_ =
      at::addThreadLocalCallback(at::RecordFunctionCallback(on_function)
                                   .needsInputs(true)
                                   .scopes({at::RecordScope::FUNCTION}));
  }

  ~operators_of_type() { at::removeCallback(handle_); }

  operators_of_type(const operators_of_type&) = delete;
  operators_of_type& operator=(const operators_of_type&) = delete;

  std::map<std::string, int> count;

private:
  static std::unique_ptr<at::ObserverContext>
  on_function(const at::RecordFunction& f) {
    if (!f.inputs().empty() && f.inputs()[0].isTensor() &&
        f.inputs()[0].toTensor().defined() &&
        f.inputs()[0].toTensor().scalar_type() == target->type_)
      ++target->count[f.name()];
    return nullptr;
  }

  static inline operators_of_type* target = nullptr;
  at::ScalarType type_;
  at::CallbackHandle handle_;
};

} // namespace

TEST_CASE("smoothed labels count in training and not in scores", "[compute]") {
  fixture f;
  auto s = settings_for(config::scalar_type::float64);
  s.label_smoothing = 0.1;
  other_engine smoothed{f, s};
  auto expected = at::cross_entropy_loss(f.scores(), f.targets, {},
                                         at::Reduction::Mean, -100, 0.1);
  auto found = smoothed.run();
  CHECK(found.loss == Approx(expected.item<double>()));
  CHECK(found.loss != Approx(f.run().loss));
  auto once = true;
  auto score = smoothed.engine.evaluate(f.weights, [&](auto& x, auto& y) {
    x = f.inputs;
    y = f.targets;
    return std::exchange(once, false);
  });
  CHECK(score.loss == Approx(f.run().loss));
}

TEST_CASE("the parts of a batch have the gradient of the whole", "[compute]") {
  fixture f;
  auto whole = f.run();
  for (uint64_t size : {1, 2, 4, 5, 6, 100}) {
    INFO(size << " samples at once");
    auto s = settings_for(config::scalar_type::float64);
    s.micro_batch_size = size;
    other_engine parts{f, s};
    for (int again = 0; again < 2; ++again) {
      auto found = parts.run();
      CHECK(found.samples == 6);
      CHECK(found.loss == Approx(whole.loss).epsilon(1e-12));
      CHECK(at::allclose(parts.gradient, f.gradient, 1e-10, 1e-12));
    }
  }
}

TEST_CASE("a cancel is seen between the parts of a batch", "[compute]") {
  fixture f;
  auto s = settings_for(config::scalar_type::float64);
  s.micro_batch_size = 2;
  other_engine parts{f, s};
  cancel_in_backward cancel{"ConvolutionBackward0"};
  CHECK(parts.run(&cancel.flag).cancelled);
  cancel.flag = false;
  CHECK(f.weights.storage().use_count() == 1);
}

TEST_CASE("statistics go on from part to part", "[compute]") {
  auto s = settings_for(config::scalar_type::float32);
  s.network = "resnet20";
  compute_engine whole{s, 10};
  s.micro_batch_size = 4;
  compute_engine parts{s, 10};
  const auto& layout = whole.layout();
  auto weights = at::empty({static_cast<int64_t>(layout.count())});
  whole.initial_weights(weights, 1);
  auto inputs = at::randn({8, 3, 32, 32});
  auto targets = at::arange(8);
  auto flat = [&] {
    return at::empty_like(weights);
  };
  auto twice = flat();
  parts.run(weights, inputs, targets, twice);
  // One half, and then the other on what it left.
  auto first = flat();
  auto second = flat();
  whole.run(weights, inputs.narrow(0, 0, 4), targets.narrow(0, 0, 4), first);
  whole.run(weights, inputs.narrow(0, 4, 4), targets.narrow(0, 4, 4), second,
            {{}, layout.statistics_of(first).clone()});
  CHECK(at::equal(layout.statistics_of(twice), layout.statistics_of(second)));
  auto mean = (layout.parameters_of(first) + layout.parameters_of(second)) / 2;
  CHECK(at::allclose(layout.parameters_of(twice), mean, 1e-4, 1e-6));
}

TEST_CASE("parts of a batch have the dropout masks of their samples",
          "[compute]") {
  auto s = settings_for(config::scalar_type::float32);
  s.network = "mnist_net";
  s.micro_batch_size = 3;
  compute_engine uut{s, 10};
  auto weights = at::empty({static_cast<int64_t>(uut.layout().count())});
  uut.initial_weights(weights, 1);
  auto inputs = at::randn({1, 1, 28, 28}).expand({6, 1, 28, 28}).contiguous();
  auto targets = at::full({6}, 3, at::kLong);
  auto gradient = at::empty_like(weights);
  auto loss_from = [&](uint64_t first, int64_t count) {
    return uut
      .run(weights, inputs.narrow(0, 0, count), targets.narrow(0, 0, count),
           gradient, {lease{lease_id{1}, 0, first, 6}})
      .loss;
  };
  // Equal samples differ by their masks alone.
  auto both = loss_from(0, 6);
  CHECK(both == Approx((loss_from(0, 3) + loss_from(3, 3)) / 2));
  CHECK(loss_from(0, 3) != Approx(loss_from(3, 3)));
}

TEST_CASE("bfloat16 is the type of convolutions and products in training",
          "[compute]") {
  fixture f{config::scalar_type::float32};
  auto s = settings_for(config::scalar_type::float32);
  s.autocast = config::autocast_kind::bf16;
  other_engine half{f, s};
  std::map<std::string, int> seen;
  {
    operators_of_type operators{at::kBFloat16};
    half.run();
    seen = operators.count;
  }
  CHECK(seen["aten::convolution"] == 2);
  CHECK(seen["aten::linear"] + seen["aten::addmm"] >= 2);
  CHECK(seen["aten::cross_entropy_loss"] == 0);
  // Near to the whole, and not it.
  f.run();
  auto distance = (half.gradient - f.gradient).norm().item<double>() /
                  f.gradient.norm().item<double>();
  CHECK(half.gradient.isfinite().all().item<bool>());
  CHECK(distance > 1e-5);
  CHECK(distance < 0.1);
  // Nothing of it stays behind.
  CHECK_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
  auto gradient = f.gradient.clone();
  f.run();
  CHECK(at::equal(gradient, f.gradient));
}

TEST_CASE("dropout works in bfloat16, and with parts of a batch", "[compute]") {
  auto s = settings_for(config::scalar_type::float32);
  s.network = "mnist_net";
  s.autocast = config::autocast_kind::bf16;
  s.micro_batch_size = 2;
  compute_engine uut{s, 10};
  auto weights = at::empty({static_cast<int64_t>(uut.layout().count())});
  uut.initial_weights(weights, 1);
  auto gradient = at::empty_like(weights);
  auto found =
    uut.run(weights, at::randn({6, 1, 28, 28}), at::arange(6), gradient);
  CHECK(found.loss > 0);
  CHECK(gradient.isfinite().all().item<bool>());
}

TEST_CASE("five of more classes may hold the right one", "[compute]") {
  fixture f;
  auto all = [](const at::Tensor& x, const at::Tensor& y) {
    return [=, once = true](auto& inputs, auto& targets) mutable {
      inputs = x;
      targets = y;
      return std::exchange(once, false);
    };
  };
  auto found = f.engine.evaluate(f.weights, all(f.inputs, f.targets));
  auto highest = std::get<1>(f.scores().topk(5, 1));
  auto right = highest.eq(f.targets.unsqueeze(1)).any(1).sum().item<int64_t>();
  REQUIRE(found.accuracy_top5);
  CHECK(*found.accuracy_top5 == Approx(static_cast<double>(right) / 6));

  compute_engine five{settings_for(config::scalar_type::float64), 5};
  auto weights =
    at::empty({static_cast<int64_t>(five.layout().count())}, at::kDouble);
  five.initial_weights(weights, 1);
  CHECK_FALSE(
    five.evaluate(weights, all(f.inputs, f.targets % 5)).accuracy_top5);
}

TEST_CASE("no gradient is computed for what is frozen", "[compute]") {
  fixture whole;
  whole.run();
  auto settings = settings_for(config::scalar_type::float64);
  settings.freeze = "conv?.*,fc1.*";
  compute_engine engine{settings, 10};
  const auto& layout = engine.layout();
  auto weights = at::empty({static_cast<int64_t>(layout.count())}, at::kDouble);
  engine.initial_weights(weights, 1);
  auto gradient = at::empty_like(weights);
  cancel_in_backward convolution{"ConvolutionBackward0"};
  engine.run(weights, whole.inputs, whole.targets, gradient);
  CHECK_FALSE(convolution.flag);
  REQUIRE(layout.count() == 5010);
  CHECK(gradient.equal(whole.gradient.narrow(0, 431'080 - 5010, 5010)));
  whole.run();
  CHECK(convolution.flag);
}

TEST_CASE("engines with the same frozen buffer compute on it", "[compute]") {
  fixture whole;
  auto settings = settings_for(config::scalar_type::float64);
  settings.freeze = "fc2.*";
  auto frozen = whole.weights.narrow(0, 431'080 - 5010, 5010);
  auto trained = whole.weights.narrow(0, 0, 431'080 - 5010).contiguous();
  compute_engine engine{settings, 10, frozen};
  auto gradient = at::empty_like(trained);
  engine.run(trained, whole.inputs, whole.targets, gradient);
  whole.run();
  CHECK(gradient.equal(whole.gradient.narrow(0, 0, 431'080 - 5010)));
  CHECK_THROWS_AS(compute_engine(settings, 10, trained), run_error);
}
