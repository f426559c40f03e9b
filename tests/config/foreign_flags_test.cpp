#include "config/commands/flags.hpp"
#include "config/commands/foreign_flags.hpp"
#include "tests/config/support.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>

using namespace troupe::config;
using namespace troupe::config::test;

namespace {

/// All of PyTorch's main.py and of ps_pytorch that are no flags here.
const std::vector<std::string> foreign{"-a",
                                       "--arch",
                                       "-j",
                                       "-b",
                                       "--wd",
                                       "--learning-rate",
                                       "-p",
                                       "--print-freq",
                                       "-e",
                                       "--pretrained",
                                       "--start-epoch",
                                       "--world-size",
                                       "--dist-url",
                                       "--dist-backend",
                                       "--gpu",
                                       "--no-accel",
                                       "--multiprocessing-distributed",
                                       "--dummy",
                                       "--test-batch-size",
                                       "--log-interval",
                                       "--kill-threshold",
                                       "--comm-type",
                                       "--num-aggregate",
                                       "--compress-grad",
                                       "--no-cuda",
                                       "--enable-gpu",
                                       "--model-dir"};

} // namespace

TEST_CASE("a flag of another program gets a hint that names ours", "[flags]") {
  for (const auto& flag : foreign) {
    INFO(flag);
    CHECK(complaint([&] {
            read_flags(std::vector{flag, std::string{"1"}});
          }) == "unknown flag '" + flag + "'" + hint_for_foreign(flag));
    CHECK_FALSE(hint_for_foreign(flag).empty());
  }
}

TEST_CASE("a hint names only flags that there are", "[flags]") {
  for (const auto& flag : foreign) {
    auto hint = hint_for_foreign(flag);
    for (auto at = hint.find("--"); at != hint.npos;
         at = hint.find("--", at + 2)) {
      auto name = hint.substr(at + 2, hint.find_first_of(" ,;", at) - at - 2);
      INFO(flag << " names " << name);
      auto starts = std::ranges::any_of(
        start_flags(), [&](const start_flag& one) { return one.name == name; });
      CHECK((starts || find_flag(name) != nullptr));
    }
  }
}

TEST_CASE("a foreign flag is known with its value and with underscores",
          "[flags]") {
  CHECK(hint_for_foreign("-b64") == hint_for_foreign("-b"));
  CHECK(hint_for_foreign("--wd=0.1") == hint_for_foreign("--wd"));
  CHECK(hint_for_foreign("--dist_url") == hint_for_foreign("--dist-url"));
  CHECK(hint_for_foreign("-bx").empty());
  CHECK(hint_for_foreign("--frobnicate").empty());
  CHECK(hint_for_foreign("").empty());
  CHECK(hint_for_foreign("-").empty());
}
