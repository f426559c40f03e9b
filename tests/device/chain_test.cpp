// Networks in parts on a device in fp16: whoever owns a part takes the scale of
// the loss out of its gradient, and no gradient that has overflowed leaves.

#include "tests/device/open_device.hpp"
#include "tests/support/module_site.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cmath>

using namespace troupe;
using test::all_remote;
using test::both;

namespace {

config::training_settings in_fp16() {
  test::open_device();
  config::training_settings out;
  out.device = "cuda:0";
  out.autocast = config::autocast_kind::fp16;
  return out;
}

struct half_site : test::module_site {
  explicit half_site(const std::string& placement)
    : test::module_site(placement, 1000, config::pipeline_order::gpipe,
                        in_fp16()) {
    // nop
  }

  /// The gradient that the server gets, and what the worker has told.
  at::Tensor gradient(const compute_task& task) {
    report = compute(task);
    return to_tensor(push(task, report.gradient)).clone();
  }

  gradient_report report;
};

double metric(const gradient_report& from, const char* name) {
  return *config::value_of(from.metrics, name);
}

} // namespace

TEST_CASE("a network in parts makes the gradient of a whole one in fp16") {
  for (const auto& placement : {both, all_remote}) {
    INFO(placement);
    half_site site{placement};
    auto task = site.task(site.pull(version{0}));
    CHECK(at::allclose(site.gradient(task), site.expected(task), 1e-3, 1e-5));
    CHECK(metric(site.report, config::native_metrics::loss_scale) == 65536);
    CHECK(metric(site.report, config::native_metrics::overflows) == 0);
  }
}

TEST_CASE("a batch of a network in parts that overflows is computed again") {
  for (const auto& placement : {both, all_remote}) {
    INFO(placement);
    half_site site{placement};
    auto task = site.task(site.pull(version{0}));
    task.batch->inputs.mul_(10000);
    auto found = site.gradient(task);
    CHECK(at::isfinite(found).all().item<bool>());
    auto wanted = site.expected(task);
    CHECK((at::norm(found - wanted) / at::norm(wanted)).item<double>() < 1e-2);
    auto overflows = metric(site.report, config::native_metrics::overflows);
    CHECK(overflows > 0);
    CHECK(metric(site.report, config::native_metrics::loss_scale) ==
          65536 / std::exp2(overflows));
    CHECK(site.roster->contexts() == 0);
  }
}

TEST_CASE("a network in parts that never stops overflowing is one line") {
  half_site site{both};
  auto task = site.task(site.pull(version{0}));
  task.batch->inputs.mul_(1e6); // Infinite in fp16.
  auto answer =
    site.actors.ask<gradient_report>(site.chain, compute_atom_v, task);
  site.actors.run();
  CHECK(answer->code() == errc::failed);
}
