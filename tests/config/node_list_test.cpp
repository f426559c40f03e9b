#include "config/sources/node_list.hpp"
#include "config/text/value.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe::config;

namespace {

using names = std::vector<std::string>;

std::string list_complaint(const std::string& list) {
  try {
    expand_node_list(list);
    return "";
  } catch (const bad_value& why) {
    return why.what();
  }
}

} // namespace

TEST_CASE("a list of nodes names each of them, in its order", "[launch]") {
  CHECK(expand_node_list("n1") == names{"n1"});
  CHECK(expand_node_list("b,a") == names{"b", "a"});
  CHECK(expand_node_list("node[01-03,7],b") ==
        names{"node01", "node02", "node03", "node7", "b"});
  CHECK(expand_node_list("n[9-11]-ib") == names{"n9-ib", "n10-ib", "n11-ib"});
  CHECK(expand_node_list("n[098-101]") ==
        names{"n098", "n099", "n100", "n101"});
  CHECK(expand_node_list("r[1-2]n[3,5]") ==
        names{"r1n3", "r1n5", "r2n3", "r2n5"});
}

TEST_CASE("what is no list of nodes is said to be none", "[launch]") {
  for (std::string list : {"", "a,", "n[1-3", "n1-3]", "n[[1]]", "n[3-1]",
                           "n[]", "n[a-b]", "n[1-]", "n[-1]"}) {
    INFO(list);
    CHECK_FALSE(list_complaint(list).empty());
  }
  CHECK(list_complaint("n[3-1]") ==
        "is no list of nodes, such as n[01-03,7],b");
  CHECK(list_complaint("n[0-4294967295]") == "names more than 65536 nodes");
  CHECK(list_complaint("n[0-999][0-999]") == "names more than 65536 nodes");
}

TEST_CASE("a list of numbers has one for each node", "[launch]") {
  CHECK(number_of_node("4(x2),3,1", 0) == 4u);
  CHECK(number_of_node("4(x2),3,1", 1) == 4u);
  CHECK(number_of_node("4(x2),3,1", 2) == 3u);
  CHECK(number_of_node("4(x2),3,1", 3) == 1u);
  CHECK_FALSE(number_of_node("4(x2),3,1", 4));
  CHECK_FALSE(number_of_node("", 0));
  CHECK_FALSE(number_of_node("many", 0));
  CHECK_FALSE(number_of_node("4(x", 0));
}
