#include "messages/transport/shm/shared_memory.hpp"
#include "messages/transport/wire/side_by_side.hpp"
#include "tests/support/payloads.hpp"

#include <catch2/catch_test_macros.hpp>

#include <fstream>
#include <string>

using namespace troupe;
using namespace troupe::test;
using namespace troupe::transport;

namespace {

constexpr auto f32 = element_type::float32;

/// The numbers in one page of memory.
constexpr uint64_t page_numbers = 1024;

/// A part in memory of its own.
payload part_in(payload_memory& memory, uint64_t count, uint64_t seed) {
  auto content = random_payload(count, seed);
  auto block = memory.take_block(content.host_bytes().size());
  std::memcpy(block.get(), content.host_bytes().data(),
              content.host_bytes().size());
  auto* data = block.get();
  return {{f32, count}, std::move(block), data};
}

payload joined_by_hand(std::span<const payload> parts) {
  uint64_t count = 0;
  for (const auto& part : parts)
    count += part.shape().count;
  payload_buffer out{{f32, count}};
  auto* at = out.bytes().data();
  for (const auto& part : parts)
    at = std::ranges::copy(part.host_bytes(), at).out;
  return std::move(out).seal();
}

} // namespace

TEST_CASE("parts in shared memory are seen as one tensor without a copy") {
  shared_memory memory;
  side_by_side views;
  payload seen;
  {
    // The last part need not end with a page.
    std::vector<payload> parts{part_in(memory, 3 * page_numbers, 1),
                               part_in(memory, page_numbers, 2),
                               part_in(memory, 2 * page_numbers + 5, 3)};
    auto whole = joined_by_hand(parts);
    auto found = views.join(whole.shape(), parts);
    REQUIRE(found);
    CHECK(same_bytes(*found, whole));
    // What is written to a part is seen: it is the same memory.
    auto* number = const_cast<std::byte*>(parts[1].host_bytes().data());
    *number = ~*number;
    CHECK(found->host_bytes()[3 * page_numbers * 4] == *number);
    seen = *found;
    // The same parts again are the same view.
    CHECK(views.join(whole.shape(), parts)->host_bytes().data() ==
          seen.host_bytes().data());
  }
  CHECK(seen.host_bytes().size() ==
        (6 * page_numbers + 5) * 4); // Parts are held.
}

TEST_CASE("parts are let go of with the tensor that they make") {
  shared_memory memory;
  side_by_side views;
  std::vector<payload> parts{part_in(memory, page_numbers, 1),
                             part_in(memory, page_numbers, 2)};
  std::weak_ptr<const void> first = parts[0].owner();
  auto whole = views.join({f32, 2 * page_numbers}, parts);
  REQUIRE(whole);
  parts.clear();
  CHECK_FALSE(first.expired());
  whole.reset();
  CHECK(first.expired());
}

TEST_CASE("a view outlives what made it") {
  shared_memory memory;
  std::optional<payload> whole;
  std::vector<payload> parts{part_in(memory, page_numbers, 1),
                             part_in(memory, page_numbers, 2)};
  {
    side_by_side views;
    whole = views.join({f32, 2 * page_numbers}, parts);
  }
  CHECK(same_bytes(*whole, joined_by_hand(parts)));
}

TEST_CASE("many views come and go") {
  shared_memory memory;
  side_by_side views;
  std::vector<payload> all;
  for (uint64_t i = 0; i < 8; ++i)
    all.push_back(part_in(memory, page_numbers, i));
  for (const auto& first : all)
    for (const auto& second : all) {
      std::vector<payload> parts{first, second};
      CHECK(same_bytes(*views.join({f32, 2 * page_numbers}, parts),
                       joined_by_hand(parts)));
    }
}

TEST_CASE("what could not be joined leaves no trace") {
  shared_memory memory;
  side_by_side views;
  std::vector<payload> parts{part_in(memory, page_numbers, 1),
                             part_in(*heap_memory(), page_numbers, 2)};
  auto mappings = [] {
    std::ifstream in{"/proc/self/maps"};
    std::string out;
    for (std::string line; std::getline(in, line);)
      if (line.find("memfd") != std::string::npos)
        out += line + "\n";
    return out;
  };
  auto before = mappings();
  REQUIRE_FALSE(before.empty());
  for (int i = 0; i < 3; ++i)
    CHECK_FALSE(views.join({f32, 2 * page_numbers}, parts));
  CHECK(mappings() == before);
}

TEST_CASE("what cannot lie side by side is not joined") {
  shared_memory memory;
  side_by_side views;
  SECTION("memory of this process alone") {
    std::vector<payload> parts{part_in(memory, page_numbers, 1),
                               part_in(*heap_memory(), page_numbers, 2)};
    CHECK_FALSE(views.join({f32, 2 * page_numbers}, parts));
  }
  SECTION("a part that ends within a page_numbers") {
    std::vector<payload> parts{part_in(memory, page_numbers + 1, 1),
                               part_in(memory, page_numbers, 2)};
    CHECK_FALSE(views.join({f32, 2 * page_numbers + 1}, parts));
  }
  SECTION("a part that begins within a page_numbers") {
    auto block = part_in(memory, 2 * page_numbers, 1);
    payload inner{
      {f32, page_numbers}, block.owner(), block.host_bytes().data() + 64};
    CHECK_FALSE(views.join({f32, page_numbers}, std::span{&inner, 1}));
  }
  SECTION("another size than the whole") {
    std::vector<payload> parts{part_in(memory, page_numbers, 1),
                               part_in(memory, page_numbers, 2)};
    CHECK_FALSE(views.join({f32, 3 * page_numbers}, parts));
  }
  SECTION("no parts") {
    CHECK_FALSE(views.join({f32, page_numbers}, {}));
  }
}
