#include "models/exchange/wrapper_names.hpp"

#include <catch2/catch_test_macros.hpp>

#include <string>
#include <vector>

using namespace troupe::models;

namespace {

using name_list = std::vector<std::string>;

bool has_way(const std::vector<names_read>& ways, const name_list& wanted) {
  for (const auto& way : ways)
    if (way.names == wanted)
      return true;
  return false;
}

} // namespace

TEST_CASE("names are read as they are first") {
  name_list all{"module.a", "module.b._orig_mod.c"};
  auto ways = ways_to_read(all);
  CHECK(ways.front().names == all);
  CHECK(ways.front().without.empty());
  CHECK(ways_to_read({"a", "b.c"}).size() == 1);
}

TEST_CASE("what wrappers put into names is taken off, in any order") {
  CHECK(has_way(ways_to_read({"module.a", "module.b.c"}), {"a", "b.c"}));
  CHECK(has_way(ways_to_read({"_orig_mod.module.a", "_orig_mod.module.b"}),
                {"a", "b"}));
  CHECK(has_way(ways_to_read({"module._orig_mod.a", "module._orig_mod.b"}),
                {"a", "b"}));
  CHECK(has_way(ways_to_read({"a.w", "b._orig_mod.w"}), {"a.w", "b.w"}));
  CHECK(has_way(ways_to_read({"model.a", "model.b"}), {"a", "b"}));
  CHECK(
    has_way(ways_to_read({"module.module.a", "module.module.b"}), {"a", "b"}));
  CHECK(
    has_way(ways_to_read({"model.module.a", "model.module.b"}), {"a", "b"}));
  auto ways = ways_to_read({"module._orig_mod.a"});
  CHECK(ways.back().without == "'_orig_mod.' and 'module.'");
}

TEST_CASE("names that only look like wrappers' stay") {
  CHECK(ways_to_read({"module.a", "b"}).size() == 1);
  CHECK(ways_to_read({"my_orig_mod.a"}).size() == 1);
  CHECK(ways_to_read({"module."}).size() == 1);
  // Two tensors would have one name.
  CHECK(ways_to_read({"a", "_orig_mod.a"}).size() == 1);
}

TEST_CASE("the count of an average belongs to the wrapper") {
  auto ways = ways_to_read({"n_averaged", "module.a"});
  CHECK(has_way(ways, {"", "a"}));
}

TEST_CASE("what is left aside need not begin like the others") {
  auto aside = [](const std::string& name) {
    return name == "loss.weight";
  };
  CHECK(ways_to_read({"model.a", "loss.weight"}).size() == 1);
  CHECK(has_way(ways_to_read({"model.a", "loss.weight"}, aside),
                {"a", "loss.weight"}));
}
