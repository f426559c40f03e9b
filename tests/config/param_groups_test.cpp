#include "config/patterns/param_groups.hpp"
#include "config/text/value.hpp"
#include "tests/config/support.hpp"

#include <catch2/catch_test_macros.hpp>

#include <random>

using namespace troupe::config;

namespace {

std::string refusal_of(const std::string& text) {
  try {
    parse_param_groups(text);
    return "none";
  } catch (const bad_value& why) {
    return why.what();
  }
}

} // namespace

TEST_CASE("groups of parameters are read as they are written",
          "[param-groups]") {
  auto all = parse_param_groups(" head.*  tail.w = weight-decay=0 lr=0.10,"
                                "*.bias=momentum=0.5 ");
  REQUIRE(all.size() == 2);
  CHECK((all[0] == param_group_rule{"head.* tail.w", {0.1, 0.0, {}}}));
  CHECK((all[1] == param_group_rule{"*.bias", {{}, {}, 0.5}}));
  CHECK(to_string(all) ==
        "head.* tail.w=lr=0.1 weight-decay=0,*.bias=momentum=0.5");
  CHECK(parse_param_groups("").empty());
  CHECK(matches(all[0], "tail.w"));
  CHECK(matches(all[1], "a.b.bias"));
  CHECK_FALSE(matches(all[1], "bias"));
}

TEST_CASE("what is no group of parameters is refused with the reason",
          "[param-groups]") {
  CHECK(refusal_of("fc1") == "'fc1' must be PATTERN = lr=X weight-decay=X "
                             "momentum=X, any of the three");
  CHECK(refusal_of("fc1=") == "has no numbers: must be lr=X, weight-decay=X or "
                              "momentum=X, or several of them");
  CHECK(refusal_of("fc1=0.1") ==
        "'0.1' must be lr=X, weight-decay=X or momentum=X");
  CHECK(refusal_of("fc1=rate=1") ==
        "'rate=1' must be lr=X, weight-decay=X or momentum=X");
  CHECK(refusal_of("fc1=lr") == "'lr' must be lr=X, weight-decay=X or "
                                "momentum=X");
  CHECK(refusal_of("fc1=lr=1 lr=2") == "has lr twice");
  CHECK(refusal_of("fc1=lr=-1") == "lr=-1: must be at least 0");
  CHECK(refusal_of("fc1=momentum=1") ==
        "momentum=1: must be at least 0 and below 1");
  CHECK(refusal_of("fc1=lr=fast").find("must be a number") !=
        std::string::npos);
  CHECK(refusal_of("a=lr=1,a=lr=2") == "has 'a' twice");
  CHECK(refusal_of("a=lr=1,") == "ends with a comma");
}

TEST_CASE("any groups of parameters are read back", "[param-groups]") {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    std::mt19937_64 random{seed};
    auto some = [&]() -> std::optional<double> {
      if (random() % 2)
        return std::nullopt;
      return static_cast<double>(random() % 1000) / 1001;
    };
    std::vector<param_group_rule> all;
    for (auto n = random() % 6; n > 0; --n) {
      param_group_rule rule{"layer" + std::to_string(n) + ".*",
                            {some(), some(), some()}};
      if (rule.numbers == group_numbers{})
        rule.numbers.lr = 0.5;
      all.push_back(rule);
    }
    CHECK((parse_param_groups(to_string(all)) == all));
  }
}
