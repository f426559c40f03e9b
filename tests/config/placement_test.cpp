#include "config/patterns/placement.hpp"
#include "config/text/text.hpp"
#include "config/text/value.hpp"
#include "tests/config/support.hpp"

#include <catch2/catch_test_macros.hpp>

#include <random>

using namespace troupe::config;

namespace {

std::string refusal(const std::string& text) {
  try {
    parse_placement(text);
    return "none";
  } catch (const bad_value& why) {
    return why.what();
  }
}

} // namespace

TEST_CASE("a placement is read as it is written", "[placement]") {
  auto all =
    parse_placement(" conv* = ps:0 , fc1  fc2=ps:12:CUDA:1,head=worker");
  REQUIRE(all.size() == 3);
  CHECK(all[0] == placement_rule{"conv*", 0});
  CHECK(all[1] == placement_rule{"fc1 fc2", 12, "cuda:1"});
  CHECK(all[2] == placement_rule{"head", std::nullopt});
  CHECK(to_string(all) == "conv*=ps:0,fc1 fc2=ps:12:cuda:1,head=worker");
  CHECK(parse_placement("*=worker:cuda")[0].device == "cuda");
  CHECK(parse_placement("*=ps:0:cpu")[0].device == "cpu");
  CHECK(parse_placement("").empty());
  CHECK(matches(all[1], "fc2"));
  CHECK(matches(all[0], "conv.1.a"));
  CHECK_FALSE(matches(all[1], "fc"));
}

TEST_CASE("what is no placement is refused with the reason", "[placement]") {
  CHECK(refusal("conv") ==
        "'conv' must be PATTERN = ps:RANK or PATTERN = worker");
  CHECK(refusal("=worker").find("must be PATTERN") != std::string::npos);
  CHECK(refusal("a=server").find("must be ps:RANK or worker") !=
        std::string::npos);
  for (const char* owner : {"ps", "ps:", "ps:x", "ps:-1", "ps:99999"})
    CHECK(refusal("a=" + std::string{owner}).find("by its rank") !=
          std::string::npos);
  for (const char* device : {"tpu", "auto", "cuda:", "cuda:16", "cuda:0:1"})
    CHECK(refusal("a=worker:" + std::string{device})
            .starts_with("device '" + std::string{device} + "' must be cpu"));
  CHECK(refusal("a=worker,a=ps:0") == "has 'a' twice");
  CHECK(refusal("a=worker,") == "ends with a comma");
}

TEST_CASE("any placement is read back", "[placement]") {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    std::mt19937_64 random{seed};
    std::vector<placement_rule> all;
    for (auto n = random() % 6; n > 0; --n) {
      placement_rule rule;
      rule.pattern = "layer" + std::to_string(n) + (random() % 2 ? ".*" : "");
      if (random() % 3 == 0)
        rule.pattern += " [ab]?";
      if (random() % 2)
        rule.server = static_cast<uint32_t>(random() % 1000);
      const char* devices[] = {"", "cpu", "cuda", "cuda:3"};
      rule.device = devices[random() % 4];
      all.push_back(rule);
    }
    CHECK(parse_placement(to_string(all)) == all);
  }
}
