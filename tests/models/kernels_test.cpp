#include "models/kernels/kernels.hpp"

#include <ATen/core/PhiloxRNGEngine.h>
#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <random>
#include <vector>

using namespace troupe::models;

namespace {

template <class T>
const kernels::loops<T>& of(const kernels::variant& x) {
  if constexpr (std::is_same_v<T, float>)
    return *x.f32;
  else
    return *x.f64;
}

template <class T>
using bits_of = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;

template <class T>
std::vector<bits_of<T>> bits(const std::vector<T>& xs) {
  std::vector<bits_of<T>> out;
  for (auto x : xs)
    out.push_back(std::bit_cast<bits_of<T>>(x));
  return out;
}

/// Memory as a step finds it, drawn from a seed.
template <class T>
struct memory {
  explicit memory(size_t count, uint64_t seed) {
    std::mt19937_64 random{seed};
    std::normal_distribution<T> normal;
    for (auto* xs : {&current, &gradient, &first, &second})
      for (size_t i = 0; i < count; ++i)
        xs->push_back(normal(random));
    for (auto& x : second)
      x *= x;
    next.resize(count);
  }

  std::vector<T> current, gradient, first, second, next;
};

/// Lengths around those of vectors, and a long one.
constexpr size_t lengths[] = {0, 1, 3, 4, 7, 8, 15, 16, 17, 31, 33, 1003};

/// The bits that `run` leaves with each instruction set that this CPU has must
/// be those of the first.
template <class T, class F>
void require_same_bits(F run) {
  const auto& all = kernels::variants();
  REQUIRE(all.front().usable);
  for (auto count : lengths) {
    auto expected = run(of<T>(all.front()), memory<T>{count, count});
    for (const auto& one : all)
      if (one.usable) {
        INFO(one.name << ", " << count << " elements");
        CHECK(run(of<T>(one), memory<T>{count, count}) == expected);
      }
  }
}

} // namespace

TEMPLATE_TEST_CASE("sums have the same bits with all instructions", "[kernels]",
                   float, double) {
  using T = TestType;
  for (size_t n = 1; n <= 9; ++n) {
    require_same_bits<T>([n](const kernels::loops<T>& loops, memory<T> x) {
      std::vector<const T*> in;
      std::vector<T> factors;
      for (size_t k = 0; k < n; ++k) {
        in.push_back((k % 2 == 0 ? x.gradient : x.current).data());
        factors.push_back(T{1} / static_cast<T>(k + 3));
      }
      loops.sum(x.next.data(), in.data(), factors.data(), n, x.next.size());
      return bits(x.next);
    });
  }
}

TEMPLATE_TEST_CASE("squares have the same sum with all instructions",
                   "[kernels]", float, double) {
  using T = TestType;
  require_same_bits<T>([](const kernels::loops<T>& loops, memory<T> x) {
    return std::bit_cast<uint64_t>(
      loops.squares(x.gradient.data(), x.gradient.size()));
  });
  std::vector<T> x{3, -4, 0, 0, 0, 0, 0, 0, 12};
  CHECK(kernels::fastest<T>().squares(x.data(), x.size()) == 169);
}

TEMPLATE_TEST_CASE("sgd has the same bits with all instructions", "[kernels]",
                   float, double) {
  using T = TestType;
  for (int kind = 0; kind < 16; ++kind) {
    kernels::sgd_terms<T> terms{
      T(0.1),          T(0.9),          kind & 1 ? T(0.01) : T(0),
      (kind & 2) != 0, (kind & 4) != 0, T(0.9)};
    auto with_momentum = (kind & 8) != 0;
    require_same_bits<T>([=](const kernels::loops<T>& loops, memory<T> x) {
      loops.sgd(terms, x.next.data(), x.current.data(), x.gradient.data(),
                with_momentum ? x.first.data() : nullptr, x.next.size());
      return std::pair{bits(x.next), bits(x.first)};
    });
  }
}

TEMPLATE_TEST_CASE("adam has the same bits with all instructions", "[kernels]",
                   float, double) {
  using T = TestType;
  kernels::adam_terms<T> terms{T(0.9), T(0.999), T(1e-8), T(0.01),
                               T(1),   T(0.01),  T(0.2)};
  require_same_bits<T>([=](const kernels::loops<T>& loops, memory<T> x) {
    loops.adam(terms, x.next.data(), x.current.data(), x.gradient.data(),
               x.first.data(), x.second.data(), x.next.size());
    return std::tuple{bits(x.next), bits(x.first), bits(x.second)};
  });
}

TEMPLATE_TEST_CASE("adagrad has the same bits with all instructions",
                   "[kernels]", float, double) {
  using T = TestType;
  kernels::adagrad_terms<T> terms{T(0.01), T(1e-10), T(0.01)};
  require_same_bits<T>([=](const kernels::loops<T>& loops, memory<T> x) {
    loops.adagrad(terms, x.next.data(), x.current.data(), x.gradient.data(),
                  x.first.data(), x.next.size());
    return std::tuple{bits(x.next), bits(x.first)};
  });
}

TEMPLATE_TEST_CASE("lamb has the same bits with all instructions", "[kernels]",
                   float, double) {
  using T = TestType;
  kernels::lamb_terms<T> terms{T(0.9),  T(0.999), T(1e-6),
                               T(0.01), T(1.5),   T(0.2)};
  require_same_bits<T>([=](const kernels::loops<T>& loops, memory<T> x) {
    loops.lamb_step(terms, x.next.data(), x.current.data(), x.gradient.data(),
                    x.first.data(), x.second.data(), x.next.size());
    auto step = bits(x.next);
    loops.lamb(terms, T(0.01), x.next.data(), x.current.data(), x.first.data(),
               x.second.data(), x.next.size());
    loops.blend(T(0.1), x.current.data(), x.next.data(), x.next.size());
    return std::tuple{step, bits(x.next), bits(x.current), bits(x.first),
                      bits(x.second)};
  });
}

TEMPLATE_TEST_CASE("a stream copies with all instructions", "[kernels]", float,
                   double) {
  using T = TestType;
  constexpr auto past_the_end = T(7);
  for (const auto& one : kernels::variants()) {
    for (auto count : lengths) {
      if (!one.usable)
        continue;
      memory<T> x{count, count};
      alignas(kernels::stream_alignment) std::array<T, 1004> to;
      to.fill(past_the_end);
      of<T>(one).stream(to.data(), x.current.data(), count);
      kernels::end_of_streams();
      CHECK(std::equal(x.current.begin(), x.current.end(), to.begin()));
      CHECK(to[count] == past_the_end);
    }
  }
}

TEMPLATE_TEST_CASE("all instructions find what is not finite", "[kernels]",
                   float, double) {
  using T = TestType;
  std::vector<size_t> counts{std::begin(lengths), std::end(lengths)};
  counts.push_back(40'001); // Several blocks of 64 KiB, and a rest.
  for (const auto& one : kernels::variants()) {
    if (!one.usable)
      continue;
    for (auto count : counts) {
      std::vector<T> xs(count, std::numeric_limits<T>::max());
      CHECK(of<T>(one).finite(xs.data(), count));
      for (size_t i = 0; i < count; i += 1 + count / 20) {
        for (auto bad : {std::numeric_limits<T>::infinity(),
                         -std::numeric_limits<T>::infinity(),
                         std::numeric_limits<T>::quiet_NaN()}) {
          xs[i] = bad;
          CHECK_FALSE(of<T>(one).finite(xs.data(), count));
        }
        xs[i] = std::numeric_limits<T>::denorm_min();
      }
    }
  }
}

TEMPLATE_TEST_CASE("dropout masks are those of LibTorch's random numbers",
                   "[kernels]", float, double) {
  using T = TestType;
  for (uint64_t seed : {0ull, 7ull, 0x123456789abcdef0ull})
    // Beyond the last, the lower half of a block's number begins again.
    for (uint64_t block : {0ull, 0x80000001ull << 32, 0xffff'fff8ull}) {
      kernels::dropout_terms<T> terms{seed, seed ^ 0x5a5a5a5a5a5a, block,
                                      0x4000'0000, T{4} / 3};
      for (const auto& one : kernels::variants())
        for (auto count : lengths)
          if (one.usable) {
            INFO(one.name << ", " << count << " elements");
            std::vector<T> found(count + 1, T{9});
            of<T>(one).dropout(terms, found.data(), count);
            at::Philox4_32 random{seed, terms.subsequence, block};
            std::vector<T> expected;
            for (size_t i = 0; i < count; ++i)
              expected.push_back(random() >= terms.lowest ? terms.scale : T{0});
            expected.push_back(T{9}); // Beyond its end nothing is written.
            CHECK(bits(found) == bits(expected));
          }
    }
}
