#include "config/text/value.hpp"
#include "config/values/synthetic.hpp"
#include "tests/support/error_line.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;
using namespace troupe::config;

namespace {

std::string synthetic_complaint(const char* text) {
  return troupe::test::error_line<bad_value>([&] { parse_synthetic(text); });
}

} // namespace

TEST_CASE("a declaration of synthetic data reads back to the same") {
  auto text = "synthetic(shape=1x28x20,classes=4,samples=99)";
  auto found = parse_synthetic(text);
  CHECK(found.shape == std::array<int64_t, 3>{1, 28, 20});
  CHECK(found.classes == 4);
  CHECK(found.samples == 99);
  CHECK(to_string(found) == text);
  auto usual = "synthetic(shape=3x32x32,classes=10,samples=5000)";
  for (auto shorter : {"synthetic", "synthetic()", "synthetic(classes=10)"})
    CHECK(to_string(parse_synthetic(shorter)) == usual);
}

TEST_CASE("what is not synthetic data is left to others") {
  CHECK_FALSE(is_synthetic("digits"));
  CHECK_FALSE(is_synthetic("synthetics"));
  CHECK(is_synthetic("synthetic(nonsense"));
}

TEST_CASE("a wrong declaration of synthetic data is one clear line") {
  CHECK(synthetic_complaint("synthetic(") == "must be synthetic(...)");
  CHECK(synthetic_complaint("synthetic(shape=3x32)") ==
        "shape of synthetic must be CxHxW, such as 3x32x32");
  CHECK(synthetic_complaint("synthetic(shape=3x32x32x1)") ==
        "shape of synthetic must be CxHxW, such as 3x32x32");
  CHECK(synthetic_complaint("synthetic(shape=0x1x1)") ==
        "shape of synthetic must be at least 1");
  CHECK(synthetic_complaint("synthetic(classes=257)")
          .starts_with("classes of synthetic"));
  CHECK(synthetic_complaint("synthetic(classes=2,classes=2)") ==
        "classes of synthetic is given twice");
  CHECK(synthetic_complaint("synthetic(5)") == "'5' must be NAME=VALUE");
  CHECK(synthetic_complaint("synthetic(samples=9999999,shape=3x1000x1000)") ==
        "asks for more than 8 GiB of samples");
}
