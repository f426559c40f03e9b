// The command line of a verb, and its help.

#include "config/commands/verb.hpp"
#include "tests/config/support.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace troupe;
using namespace troupe::config;
using namespace troupe::config::test;
using Catch::Matchers::ContainsSubstring;

namespace {

const verb bake{
  "bake",
  "Bakes what is in the tin, and says when it is done.",
  {{"tin", "TIN", "a tin to bake", any_text()}},
  false,
  {{"degrees", "N", "of the oven", whole(50, 300)},
   {"minutes", "N", "how long", whole(1, 600), "30"},
   {"mode", "top|fan", "of the oven", one_of_words({"top", "fan"}), "", true}}};

std::string refusal(const std::string& typed) {
  return complaint([&] { read_verb(bake, split(typed)); });
}

} // namespace

TEST_CASE("a verb takes operands and flags in any order", "[verb]") {
  for (auto typed :
       {"tin --degrees 180 --mode fan", "--degrees=180 tin --mode=FAN"}) {
    auto what = read_verb(bake, split(typed));
    REQUIRE(what);
    CHECK(what->operands == std::vector<std::string>{"tin"});
    CHECK(what->flags.whole("degrees") == 180);
    CHECK(what->flags.whole("minutes") == 30);
    CHECK(what->flags.text("mode") == "fan");
  }
}

TEST_CASE("what a verb cannot take is one clear line", "[verb]") {
  CHECK(refusal("--degrees 180") == "bake needs a tin to bake");
  CHECK(refusal("tin") == "bake needs --degrees N");
  CHECK(refusal("tin --degrees") == "--degrees needs a value");
  CHECK(refusal("tin --degrees --mode fan") == "--degrees needs a value");
  CHECK(refusal("tin --degrees 20") == "--degrees 20: must be at least 50");
  CHECK(refusal("tin --degrees=") == "--degrees \"\": needs a value");
  CHECK(refusal("tin --degrees 99 --degrees 99") == "--degrees is given twice");
  CHECK(refusal("tin --degree 99") ==
        "bake has no flag '--degree'; did you mean '--degrees'?");
  CHECK(refusal("tin --colour red") ==
        "bake has no flag '--colour'; see trainer_node bake --help");
  CHECK(refusal("tin cup --degrees 99") == "unexpected argument 'cup'");
  CHECK(refusal("tin --degrees 99 --mode low") ==
        "--mode low: must be one of top, fan");
}

TEST_CASE("a verb passes on what is not its own", "[verb]") {
  auto passing = bake;
  passing.passes_on = true;
  auto what = read_verb(passing, split("tin --lr 0.1 --degrees 99 --tape"));
  REQUIRE(what);
  CHECK(what->others == std::vector<std::string>{"--lr", "0.1", "--tape"});
}

TEST_CASE("a verb's help is made from its table, 80 columns wide", "[verb]") {
  CHECK_FALSE(read_verb(bake, split("tin --help")));
  CHECK_FALSE(read_verb(bake, split("-h")));
  auto text = help_of({&bake, 1});
  CHECK(text.starts_with("usage: trainer_node bake TIN --degrees N "
                         "[--minutes N] [--mode top|fan]\n\nBakes what"));
  CHECK_THAT(text, ContainsSubstring("how long (default: 30)"));
  std::istringstream lines{text};
  for (std::string line; std::getline(lines, line);)
    CHECK(line.size() <= 80);
}
