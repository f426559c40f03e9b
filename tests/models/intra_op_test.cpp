#include "models/engine/intra_op.hpp"

#include <catch2/catch_test_macros.hpp>

#include <future>
#include <vector>

using namespace troupe;

TEST_CASE("intra-op threads hold for one thread and one scope") {
  auto seen = std::async(std::launch::async, [] {
                at::set_num_threads(2);
                std::vector<int> out;
                {
                  models::intra_op_threads one{1};
                  out.push_back(at::get_num_threads());
                }
                out.push_back(at::get_num_threads());
                return out;
              }).get();
  CHECK(seen == std::vector{1, 2});
}
