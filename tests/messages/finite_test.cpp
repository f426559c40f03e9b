#include "messages/finite.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cstring>
#include <limits>
#include <vector>

using namespace troupe;

namespace {

template <class T>
payload of(element_type type, const std::vector<T>& numbers) {
  payload_buffer out{{type, numbers.size()}};
  std::memcpy(out.bytes().data(), numbers.data(), out.bytes().size());
  return std::move(out).seal();
}

template <class T>
void check(element_type type) {
  using limits = std::numeric_limits<T>;
  for (size_t count : {1, 7, 1024, 5003}) {
    std::vector<T> numbers(count, limits::max());
    numbers[count / 2] = limits::denorm_min();
    CHECK(all_finite(of(type, numbers)));
    for (auto bad : {limits::quiet_NaN(), limits::infinity(),
                     -limits::infinity(), -limits::quiet_NaN()})
      for (auto at : {size_t{0}, count / 3, count - 1}) {
        auto spoilt = numbers;
        spoilt[at] = bad;
        CHECK_FALSE(all_finite(of(type, spoilt)));
      }
  }
}

} // namespace

TEST_CASE("one number that is not finite is found wherever it is") {
  check<float>(element_type::float32);
  check<double>(element_type::float64);
}

TEST_CASE("compressed bytes and no tensor at all count as finite") {
  CHECK(all_finite(of(element_type::byte, std::vector<uint8_t>(9, 255))));
  CHECK(all_finite(payload{}));
}
