#include "config/failure.hpp"
#include "models/compute.hpp"
#include "models/network.hpp"
#include "tests/support/error_line.hpp"

#include <ATen/record_function.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <torch/torch.h>

#include <algorithm>
#include <limits>
#include <memory>

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
    return engine.run(weights, inputs, targets, gradient, cancel);
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
  auto all = [&](size_t i, auto what) {
    return (f.engine.layout().view(f.gradient, slots[i]).*what)()
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
