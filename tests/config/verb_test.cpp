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

std::string verb_complaint(const std::string& typed) {
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

TEST_CASE("a flag that may be repeated keeps all its values, in order",
          "[verb]") {
  auto tins = bake;
  tins.repeated = {{"add", "N", "grams of it", whole(1, 100)}};
  auto call = read_verb(tins, split("tin --add 7 --degrees 99 --add=3"));
  REQUIRE(call);
  CHECK(call->repeated.at("add") == std::vector<std::string>{"7", "3"});
  CHECK(complaint([&] { read_verb(tins, split("tin --add 0")); }) ==
        "--add 0: must be at least 1");
  CHECK(complaint([&] { read_verb(tins, split("tin --ad 1")); }) ==
        "bake has no flag '--ad'; did you mean '--add'?");
  CHECK_THAT(help_of({&tins, 1}), ContainsSubstring("[--add N]...") &&
                                    ContainsSubstring("(may be repeated)"));
}

TEST_CASE("what a verb cannot take is one clear line", "[verb]") {
  CHECK(verb_complaint("--degrees 180") == "bake needs a tin to bake");
  CHECK(verb_complaint("tin") == "bake needs --degrees N");
  CHECK(verb_complaint("tin --degrees") == "--degrees needs a value");
  CHECK(verb_complaint("tin --degrees --mode fan") ==
        "--degrees needs a value");
  CHECK(verb_complaint("tin --degrees 20") ==
        "--degrees 20: must be at least 50");
  CHECK(verb_complaint("tin --degrees=") == "--degrees \"\": needs a value");
  CHECK(verb_complaint("tin --degrees 99 --degrees 99") ==
        "--degrees is given twice");
  CHECK(verb_complaint("tin --degree 99") ==
        "bake has no flag '--degree'; did you mean '--degrees'?");
  CHECK(verb_complaint("tin --colour red") ==
        "bake has no flag '--colour'; see trainer_node bake --help");
  CHECK(verb_complaint("tin cup --degrees 99") == "unexpected argument 'cup'");
  CHECK(verb_complaint("tin --degrees 99 --mode low") ==
        "--mode low: must be one of top, fan");
}

TEST_CASE("a switch of a verb is given or not", "[verb]") {
  auto switched = bake;
  switched.flags.push_back({"crisp", "", "until it is", any_text()});
  auto read = [&](const std::string& typed) {
    return read_verb(switched, split(typed))->flags.has("crisp");
  };
  CHECK(read("--crisp tin --degrees 99"));
  CHECK_FALSE(read("tin --degrees 99"));
  CHECK(complaint([&] { read("tin --degrees 99 --crisp=1"); }) ==
        "--crisp takes no value");
  CHECK_THAT(help_of({&switched, 1}), ContainsSubstring(" [--crisp]\n"));
}

TEST_CASE("one of several verbs is chosen by its first word", "[verb]") {
  auto boil = bake;
  boil.name = "cook boil";
  boil.flags.clear();
  auto fry = bake;
  fry.name = "cook fry";
  std::vector<verb> both{boil, fry};
  auto chosen = choose_verb("cook", both, split("fry tin --degrees 99"));
  REQUIRE(chosen.which == &both[1]);
  CHECK(chosen.call.flags.whole("degrees") == 99);
  CHECK(choose_verb("cook", both, split("--help")).help == help_of(both));
  CHECK(choose_verb("cook", both, split("fry --help")).help ==
        help_of({&both[1], 1}));
  CHECK(complaint([&] { choose_verb("cook", both, split("stew tin")); }) ==
        "cook needs to be told what to do: cook boil TIN or cook fry TIN "
        "--degrees N");
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
