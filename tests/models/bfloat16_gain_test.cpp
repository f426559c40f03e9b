#include "config/text/failure.hpp"
#include "models/engine/bfloat16_gain.hpp"

#include <ATen/autocast_mode.h>
#include <catch2/catch_test_macros.hpp>

#include <cmath>

using namespace troupe;
using namespace troupe::models;

namespace {

config::training_settings small_batches_of(const std::string& network) {
  config::training_settings out;
  out.network = network;
  out.batch_size = 4;
  return out;
}

} // namespace

TEST_CASE("bfloat16 is measured where the processor has it", "[bfloat16]") {
  auto gain = bfloat16_gain(small_batches_of("lenet"), {1, 28, 28}, 10);
  if (has_bfloat16_instructions()) {
    CHECK(std::isfinite(gain));
    CHECK(gain > 0);
  } else {
    CHECK(gain == 0);
  }
  CHECK_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
}

TEST_CASE("there is no gain for other types than float32", "[bfloat16]") {
  auto settings = small_batches_of("lenet");
  settings.dtype = config::scalar_type::float64;
  CHECK(bfloat16_gain(settings, {1, 28, 28}, 10) == 0);
}

TEST_CASE("a network that cannot be made has no gain", "[bfloat16]") {
  if (has_bfloat16_instructions())
    CHECK_THROWS_AS(bfloat16_gain(small_batches_of("script:/no/such/file.pt"),
                                  {1, 28, 28}, 10),
                    failure);
}
