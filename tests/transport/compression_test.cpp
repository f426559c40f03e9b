#include "messages/transport/compression/compression.hpp"
#include "messages/transport/wire/half.hpp"
#include "messages/transport/wire/socket.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

using namespace troupe;
using namespace troupe::transport;
using config::compression;
using config::compression_kind;

namespace {

using numbers = std::vector<float>;

constexpr auto infinity = std::numeric_limits<float>::infinity();
constexpr auto no_number = std::numeric_limits<float>::quiet_NaN();

/// Of many magnitudes, as gradients are.
numbers random_numbers(size_t count, uint64_t seed) {
  std::mt19937_64 random{seed};
  std::normal_distribution<float> small{0, 0.01F};
  std::uniform_real_distribution<float> exponent{-6, 1};
  numbers out(count);
  for (auto& x : out)
    x = small(random) * std::pow(10.0F, exponent(random));
  return out;
}

struct compressed {
  std::vector<std::byte> bytes;
  numbers lost;
  bool finite = false;
};

compressed pack(const gradient_codec& codec, const numbers& gradient,
                const numbers& error_feedback = {}) {
  compressed out{
    std::vector<std::byte>(codec.compressed().bytes()),
    numbers(codec.how().has_error_feedback() ? codec.numbers() : 0), false};
  out.finite = codec.pack(gradient, error_feedback, out.lost, out.bytes);
  return out;
}

numbers unpack(const gradient_codec& codec,
               const std::vector<std::byte>& bytes) {
  numbers out(codec.plain().count, -1);
  codec.unpack(bytes, out);
  return out;
}

numbers there_and_back(const gradient_codec& codec, const numbers& gradient) {
  return unpack(codec, pack(codec, gradient).bytes);
}

float largest(std::span<const float> x) {
  return std::accumulate(x.begin(), x.end(), 0.0F, [](float most, float each) {
    return std::max(most, std::abs(each));
  });
}

const compression fp16{compression_kind::fp16}, bf16{compression_kind::bf16},
  int8{compression_kind::int8}, topk{compression_kind::topk};

} // namespace

// -- 16 bits ------------------------------------------------------------------

TEST_CASE("every half is itself as a float and back", "[compression]") {
  for (uint32_t i = 0; i <= 0xffff; ++i) {
    auto half = static_cast<uint16_t>(i);
    auto x = from_half(half);
    auto is_nan = (half & 0x7fff) > 0x7c00;
    CHECK(std::isnan(x) == is_nan);
    if (!is_nan && to_half(x) != half)
      FAIL(i << " became " << to_half(x));
  }
  CHECK(from_half(0x3c00) == 1);
  CHECK(from_half(0xc000) == -2);
  CHECK(from_half(0x7bff) == 65504);
  CHECK(from_half(0x0400) == 0x1p-14F);
  CHECK(from_half(0x0001) == 0x1p-24F);
  CHECK(from_half(0x7c00) == infinity);
}

TEST_CASE("numbers between two halves go to the nearer, ties to the even one",
          "[compression]") {
  for (uint32_t i = 0; i < 0x7bff; ++i) {
    auto low = static_cast<uint16_t>(i);
    auto high = static_cast<uint16_t>(i + 1);
    auto middle = (from_half(low) + from_half(high)) / 2; // Exact in a float.
    auto even = low % 2 == 0 ? low : high;
    auto right = to_half(std::nextafter(middle, 0.0F)) == low &&
                 to_half(middle) == even &&
                 to_half(std::nextafter(middle, infinity)) == high &&
                 to_half(-middle) == (even | 0x8000);
    if (!right)
      FAIL("between " << i << " and the next");
  }
}

TEST_CASE("what is too large for a half stays finite", "[compression]") {
  CHECK(from_half(to_half(1e9F)) == 65504);
  CHECK(from_half(to_half(-65520)) == -65504);
  CHECK(from_half(to_half(-infinity)) == -infinity);
  CHECK(std::isnan(from_half(to_half(no_number))));
  constexpr auto most = std::numeric_limits<float>::max();
  CHECK(std::isfinite(from_bf16(to_bf16(most))));
  CHECK(from_bf16(to_bf16(infinity)) == infinity);
  CHECK(std::isnan(from_bf16(to_bf16(no_number))));
  CHECK(from_bf16(to_bf16(1.00390625F)) == 1); // A tie.
  CHECK(from_bf16(to_bf16(1.01171875F)) == 1.015625F);
}

// -- codecs -------------------------------------------------------------------

TEST_CASE("a compressed gradient has the size that it promises",
          "[compression]") {
  CHECK(gradient_codec{fp16, 1000, 10}.compressed().bytes() == 2040);
  CHECK(gradient_codec{bf16, 1000, 0}.compressed().bytes() == 2000);
  CHECK(gradient_codec{int8, 1025, 1}.compressed().bytes() == 4 + 8 + 1025);
  CHECK(gradient_codec{topk, 1000, 2}.compressed().bytes() == 8 + 80);
  CHECK(gradient_codec{topk, 1, 0}.compressed().bytes() == 8);
  CHECK(gradient_codec{fp16, 1000, 10}.plain().count == 1010);
}

TEST_CASE("compression loses no more than the format says", "[compression]") {
  auto count = GENERATE(1, 2, 1023, 1024, 1025, 5000);
  auto seed = GENERATE(range(1, 6));
  auto gradient = random_numbers(count, seed);
  auto differs = [&](const compression& how, auto bound) {
    auto back =
      there_and_back(gradient_codec{how, gradient.size(), 0}, gradient);
    for (size_t i = 0; i < gradient.size(); ++i)
      if (!(std::abs(back[i] - gradient[i]) <= bound(i)))
        return true;
    return false;
  };
  CHECK_FALSE(differs(fp16, [&](size_t i) {
    return std::max(std::abs(gradient[i]) * 0x1p-11F, 0x1p-25F);
  }));
  CHECK_FALSE(
    differs(bf16, [&](size_t i) { return std::abs(gradient[i]) * 0x1p-8F; }));
  CHECK_FALSE(differs(int8, [&](size_t i) {
    auto first = i / 1024 * 1024;
    auto of_block = std::span{gradient}.subspan(
      first, std::min<size_t>(1024, gradient.size() - first));
    return largest(of_block) / 127 * 0.5001F;
  }));
}

TEST_CASE("top-k keeps the largest, and of equals the first", "[compression]") {
  const gradient_codec some{{compression_kind::topk, 0.25}, 8, 0};
  CHECK(there_and_back(some, {1, -5, 2, 4, 0, -3, 0.5, 3}) ==
        numbers{0, -5, 0, 4, 0, 0, 0, 0});
  CHECK(there_and_back(some, {1, 1, -1, 1, 1, 1, 1, 1}) ==
        numbers{1, 1, 0, 0, 0, 0, 0, 0});
  CHECK(there_and_back(some, numbers(8, 0)) == numbers(8, 0));
  auto many = random_numbers(10'000, 3);
  const gradient_codec tenth{{compression_kind::topk, 0.1}, 10'000, 0};
  auto kept = there_and_back(tenth, many);
  auto sizes = many;
  std::ranges::sort(sizes, std::greater{}, [](float x) { return std::abs(x); });
  auto least = std::abs(sizes[999]);
  for (size_t i = 0; i < many.size(); ++i)
    CHECK(kept[i] == (std::abs(many[i]) >= least ? many[i] : 0));
}

TEST_CASE("running statistics travel as they are", "[compression]") {
  auto how = GENERATE(fp16, bf16, int8, topk);
  auto gradient = random_numbers(1500, 1);
  auto back = there_and_back(gradient_codec{how, 1400, 100}, gradient);
  CHECK(std::ranges::equal(back.begin() + 1400, back.end(),
                           gradient.begin() + 1400, gradient.end()));
}

TEST_CASE("what compression loses comes with later gradients",
          "[compression]") {
  auto how = GENERATE(int8, topk, compression{compression_kind::topk, 0.2});
  const gradient_codec codec{how, 3000, 0};
  std::vector<double> given(3000), arrived(3000);
  numbers error_feedback;
  for (uint64_t step = 1; step <= 50; ++step) {
    auto gradient = random_numbers(3000, step);
    auto sent = pack(codec, gradient, error_feedback);
    REQUIRE(sent.finite);
    auto back = unpack(codec, sent.bytes);
    for (size_t i = 0; i < 3000; ++i) {
      given[i] += gradient[i];
      arrived[i] += back[i];
    }
    error_feedback = sent.lost;
  }
  for (size_t i = 0; i < 3000; ++i)
    if (!(std::abs(given[i] - arrived[i] - error_feedback[i]) < 1e-6))
      FAIL("number " << i << " lost "
                     << given[i] - arrived[i] - error_feedback[i]);
}

TEST_CASE("a gradient that is not finite arrives as one", "[compression]") {
  auto how = GENERATE(fp16, bf16, int8, topk);
  auto bad = GENERATE(no_number, infinity, -infinity);
  auto at = GENERATE(0, 1100, 2999);
  auto gradient = random_numbers(3000, 1);
  gradient[static_cast<size_t>(at)] = bad;
  const gradient_codec codec{how, 3000, 0};
  auto sent = pack(codec, gradient);
  CHECK_FALSE(sent.finite);
  auto back = unpack(codec, sent.bytes);
  CHECK(std::ranges::any_of(back, [](float x) { return !std::isfinite(x); }));
}

TEST_CASE("the tiniest numbers do not become NaN", "[compression]") {
  auto how = GENERATE(fp16, bf16, int8, topk);
  auto tiny = GENERATE(0.0F, 1e-45F, 1e-40F, -1e-38F);
  auto back = there_and_back(gradient_codec{how, 2000, 0}, numbers(2000, tiny));
  for (auto x : back)
    REQUIRE(std::abs(x) <= std::abs(tiny) * 1.01F);
}

TEST_CASE("positions out of place are refused", "[compression]") {
  const gradient_codec codec{{compression_kind::topk, 0.2}, 10, 0};
  auto good = pack(codec, random_numbers(10, 1)).bytes;
  auto position = GENERATE(std::pair{0, 10U}, std::pair{1, 0U},
                           std::pair{0, 0xffffffffU}, std::pair{1, 10U});
  auto bad = good;
  std::memcpy(bad.data() + 4 * position.first, &position.second, 4);
  CHECK_THROWS_AS(unpack(codec, bad), path_error);
  CHECK_NOTHROW(unpack(codec, good));
}

TEST_CASE("a payload that was not compressed is of no use as a gradient",
          "[compression]") {
  auto codec = make_codec(fp16, 100, 0);
  unpacker far{codec};
  payload_buffer plain{codec->plain()};
  auto refused = far.unpack(std::move(plain).seal());
  CHECK_FALSE(refused);
  CHECK(refused.shape() != codec->plain());
  // Only its shape arrived.
  CHECK(far.unpack(payload{codec->plain(), nullptr, nullptr}).shape() !=
        codec->plain());
  payload_buffer compressed{codec->compressed()};
  std::ranges::fill(compressed.bytes(), std::byte{0});
  auto taken = far.unpack(std::move(compressed).seal());
  REQUIRE(taken);
  CHECK(taken.shape() == codec->plain());
  CHECK(make_codec({}, 100, 0) == nullptr);
}

TEST_CASE("each fragment of a gradient is compressed by itself",
          "[compression]") {
  const std::vector<uint64_t> sizes{40, 0, 68}; // The last one with the rest.
  for (const auto& how : {fp16, bf16, int8, topk}) {
    auto codec = make_codec(how, 100, 8, sizes);
    CHECK((codec->numbers_of_fragments() == std::vector<uint64_t>{40, 0, 60}));
    unpacker far{codec};
    for (uint32_t k : {0u, 2u}) {
      const auto& its = codec->of(k);
      REQUIRE(its.plain().count == sizes[k]);
      auto gradient = random_numbers(sizes[k], k);
      auto bytes = pack(its, gradient).bytes;
      payload_buffer buffer{its.compressed()};
      std::ranges::copy(bytes, buffer.bytes().begin());
      auto sent = std::move(buffer).seal();
      auto taken = far.unpack(sent, k);
      REQUIRE(taken.shape() == its.plain());
      auto expected = unpack(its, bytes);
      CHECK(std::memcmp(taken.host_bytes().data(), expected.data(),
                        taken.shape().bytes()) == 0);
      CHECK_FALSE(far.unpack(sent, 2 - k));
      CHECK_FALSE(far.unpack(sent, 1));
    }
    payload nothing{{element_type::float32, 0}, nullptr, nullptr};
    CHECK(far.unpack(nothing, 1).shape() == nothing.shape());
    CHECK(far.unpack(nothing, 0).shape() != codec->of(0).plain());
  }
  auto whole = make_codec(int8, 100, 8);
  CHECK(&whole->of(2) == whole.get());
  CHECK((whole->numbers_of_fragments() == std::vector<uint64_t>{100}));
}
