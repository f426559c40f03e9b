#include "config/schema/paths.hpp"

#include <catch2/catch_test_macros.hpp>

#include <set>

using namespace troupe::config;

TEST_CASE("a transport takes the paths that it names, and auto those that it "
          "may choose") {
  CHECK(takes_paths("auto", reach::host));
  CHECK(takes_paths("auto", reach::network));
  CHECK_FALSE(takes_paths("auto", reach::process));
  CHECK(takes_paths("shm", reach::host));
  CHECK_FALSE(takes_paths("shm", reach::network));
  CHECK(takes_paths("nccl", reach::network));
  for (auto across : {reach::process, reach::host, reach::network}) {
    CHECK_FALSE(takes_paths(actor_connection, across));
    CHECK_FALSE(takes_paths("rdma", across));
  }
}

TEST_CASE("paths have names of their own, and are replaced by ones that are "
          "there") {
  std::set<std::string> names;
  for (const auto& each : known_paths()) {
    INFO(each.name);
    CHECK(names.insert(each.name).second);
    CHECK((each.instead.empty() || find_path(each.instead) != nullptr));
    // What needs more than every machine has is replaced where it fails.
    CHECK((!each.needs_gpu || !each.instead.empty()));
  }
  CHECK(find_path("auto") == nullptr);
  CHECK(transport_names().front() == "auto");
  CHECK(transport_names().size() == names.size() + 1);
}
