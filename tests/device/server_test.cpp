// The tensor half of a parameter server on a device.

#include "actors/runtime/tensor_payload.hpp"
#include "actors/weights/server_model.hpp"
#include "models/device/device_tensor.hpp"
#include "tests/device/open_device.hpp"
#include "tests/support/payloads.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <limits>

using namespace troupe;
using namespace troupe::test;

namespace {

const c10::Device first_gpu{c10::kCUDA, 0};

config::training_settings server_settings(const std::string& optimizer) {
  open_device();
  config::training_settings out;
  out.network = "resnet20"; // It has running statistics.
  out.optimizer = optimizer;
  out.weight_decay = 1e-4;
  out.ema_decay = 0.9;
  out.clip_norm = 1;
  // Exact, so that the CPU's 1 - beta is, too.
  out.beta1 = 0.875;
  out.beta2 = 0.9375;
  return out;
}

/// How far two tensors are apart, by the largest number of the second.
double distance(const at::Tensor& x, const at::Tensor& y) {
  return x.sub(y).abs().max().item<double>() / y.abs().max().item<double>();
}

/// The same server twice, which make the same steps.
struct servers {
  explicit servers(config::training_settings settings)
    : host(settings, 10), device((settings.device = "cuda:0", settings), 10) {
    // nop
  }

  static void step(server_model& model, uint64_t makes,
                   std::vector<payload> gradients) {
    std::vector<double> shares(gradients.size(), 8);
    for (auto& x : gradients) {
      x = model.place(x);
      REQUIRE(model.look_at(x).is_sound);
    }
    step_terms terms{0.1};
    if (model.clips())
      terms.scale = model.scale_of(model.squares({gradients, shares}));
    if (model.has_factors())
      terms.factors =
        model.factors_of(model.measure({gradients, shares}, terms.scale));
    model.step(version{makes}, std::move(gradients), shares, terms);
  }

  void step_both() {
    std::vector<payload> gradients;
    for (int i = 0; i < 2; ++i)
      gradients.push_back(to_payload(
        at::randn({static_cast<int64_t>(host.shape().count)}).abs()));
    ++makes;
    step(host, makes, gradients);
    step(device, makes, gradients);
  }

  void check_equal() const {
    CHECK(device.newest().device() != nullptr);
    CHECK(distance(to_tensor(device.newest()), to_tensor(host.newest())) <
          1e-6);
    CHECK(distance(device.make_whole_average(), host.make_whole_average()) <
          1e-6);
  }

  server_model host, device;
  uint64_t makes = 0;
};

} // namespace

TEST_CASE("a payload on a device is had in the host's memory by asking") {
  open_device();
  auto numbers = at::arange(100, at::kFloat);
  auto x = to_payload(numbers.to(first_gpu));
  REQUIRE(x.device() != nullptr);
  CHECK(x.device()->device() == 0);
  CHECK(at::equal(to_tensor(x), numbers));
  auto part = x.part(10, 5);
  CHECK(part.device() == x.device());
  CHECK(at::equal(to_tensor(part), numbers.narrow(0, 10, 5)));
  CHECK(at::equal(to_tensor(part, first_gpu).cpu(), numbers.narrow(0, 10, 5)));
  CHECK(
    at::equal(to_tensor(part, last_device()).cpu(), numbers.narrow(0, 10, 5)));
  CHECK(part.is_same(x.part(10, 7)));
  CHECK_FALSE(part.is_same(x));
  CHECK(to_payload(numbers).device() == nullptr);
}

TEST_CASE("a server on a device steps as one on the CPU") {
  servers both{server_settings(GENERATE("sgd", "adam", "lamb"))};
  for (int i = 0; i < 4; ++i)
    both.step_both();
  both.check_equal();
}

TEST_CASE("a version on a device never changes while somebody holds it") {
  servers both{server_settings("sgd")};
  auto reader = both.device.newest();
  auto content = to_tensor(reader).clone();
  both.step_both();
  CHECK(at::equal(to_tensor(reader), content));
  CHECK(at::equal(to_tensor(reader, first_gpu).cpu(), content));
}

TEST_CASE("a step in place comes after those who read the version before") {
  servers both{server_settings("sgd")};
  both.step_both();
  auto before = both.device.newest().device_address();
  c10::impl::VirtualGuardImpl device{c10::kCUDA};
  at::Tensor twice;
  {
    // Enqueued on another stream, and not waited for.
    c10::StreamGuard guard{device.getStreamFromGlobalPool(first_gpu)};
    twice = to_tensor(both.device.newest(), first_gpu).mul(2);
  }
  both.step_both(); // The fake device would report a step that did not wait.
  CHECK(both.device.newest().device_address() == before);
}

TEST_CASE("a server on a device refuses a gradient that is not finite") {
  servers both{server_settings("sgd")};
  auto numbers = at::randn({static_cast<int64_t>(both.host.shape().count)});
  CHECK(
    both.device.look_at(both.device.place(to_payload(numbers.abs()))).is_sound);
  numbers[5] = std::numeric_limits<float>::quiet_NaN();
  CHECK_FALSE(
    both.device.look_at(both.device.place(to_payload(numbers))).is_sound);
}

TEST_CASE("a server on a device finds the norm of each gradient") {
  auto settings = server_settings("sgd");
  settings.outliers = "refuse";
  servers both{settings};
  auto numbers = at::randn({static_cast<int64_t>(both.host.shape().count)});
  auto here = both.host.look_at(to_payload(numbers));
  auto there = both.device.look_at(both.device.place(to_payload(numbers)));
  CHECK((here.is_sound && there.is_sound));
  CHECK(std::abs(there.squares.value() / here.squares.value() - 1) < 1e-5);
  numbers[5] = std::numeric_limits<float>::quiet_NaN();
  CHECK_FALSE(
    both.device.look_at(both.device.place(to_payload(numbers))).is_sound);
}

TEST_CASE("what a server on a device saves has the CPU's names and places") {
  auto settings = server_settings("adam");
  settings.clip_norm.reset(); // Norms are sums, whose rounding differs more.
  servers both{settings};
  both.step_both();
  snapshot host;
  snapshot device;
  both.host.save(host);
  both.device.save(device);
  CHECK(device.weights.shape() == host.weights.shape());
  REQUIRE(device.slots.size() == host.slots.size());
  for (size_t i = 0; i < host.slots.size(); ++i) {
    CHECK(device.slots[i].name == host.slots[i].name);
    CHECK(distance(to_tensor(device.slots[i].flat),
                   to_tensor(host.slots[i].flat)) < 1e-6);
  }
}
