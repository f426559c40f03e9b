// A tensor of 1 GiB over every path.

#include "tests/transport/rig.hpp"

#include <catch2/generators/catch_generators.hpp>

using namespace troupe;
using namespace troupe::test;

TEST_CASE("1 GiB arrives whole") {
  auto kind = GENERATE(as<std::string>{}, "inproc", "chunked", "stream", "shm");
  INFO(kind);
  rig it{kind, {element_type::float64, uint64_t{1} << 27}};
  auto link = it.connect();
  caf::scoped_actor self{it.system()};
  self
    ->request(link, std::chrono::minutes(5), push_atom_v, numbered(3),
              seeded(it.shape(), 3))
    .receive(
      [](const release_header& header, const payload& weights) {
        CHECK(header.weights == version{3});
        CHECK(is_seeded(weights, 3));
      },
      [](const caf::error& why) { FAIL(caf::to_string(why)); });
  CHECK(it.log->damaged == 0);
}
