// What a node believes of a server's welcome.

#include "actors/session/server_links.hpp"
#include "messages/transport/wire/path.hpp"
#include "tests/support/actor_fixture.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cstdint>
#include <vector>

using namespace troupe;

namespace {

proto::Welcome welcome_with(const std::vector<uint64_t>& fragments,
                            const std::string& compression = "none") {
  proto::Welcome out;
  out.set_element_type(static_cast<uint32_t>(element_type::float32));
  out.set_parameters(10);
  out.set_compressed_parameters(8); // Behind them are statistics.
  for (auto count : fragments)
    out.add_fragments(count);
  auto& setting = *out.mutable_description()->add_settings();
  setting.set_key("cluster.compression");
  setting.set_value(compression);
  return out;
}

struct fixture : test::actor_fixture {
  fixture() { uut.add({"127.0.0.1", 1}); }

  /// Whether a worker takes it.
  bool takes(const proto::Welcome& welcome) try {
    uut.describe(0, welcome, true);
    return true;
  } catch (const transport::path_error&) {
    return false;
  }

  server_links uut{system()};
};

} // namespace

TEST_CASE("fragments of a server are all that it has, and no more") {
  fixture on;
  CHECK(on.takes(welcome_with({})));
  CHECK(on.takes(welcome_with({4, 0, 6})));
  CHECK((on.uut.all().front().fragments == std::vector<uint64_t>{4, 0, 6}));
  CHECK_FALSE(on.takes(welcome_with({4, 5})));
  CHECK_FALSE(on.takes(welcome_with({4, 7})));
  constexpr auto half = uint64_t{1} << 63; // Their sum is 10, modulo 2^64.
  CHECK_FALSE(on.takes(welcome_with({half, half, 10})));
}

TEST_CASE("the last fragment of a server has its statistics") {
  fixture on;
  CHECK(on.takes(welcome_with({4, 6}, "bf16")));
  CHECK(on.takes(welcome_with({8, 2}, "bf16")));
  CHECK_FALSE(on.takes(welcome_with({9, 1}, "bf16")));
}
