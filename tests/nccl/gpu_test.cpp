// The real NCCL on a real GPU: several ranks in this process, on one GPU when
// there is but one. Says why when it cannot run.

#include "messages/transport/nccl/ferry.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

using namespace troupe;
using namespace troupe::transport::nccl;

namespace {

constexpr int size = 3;

/// Seconds of the machine's clock.
double now() {
  auto since = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(since).count();
}

library_ptr real_library() {
  // Read by NCCL when it begins, in releases that know it.
  setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 0);
  auto result = library::load();
  if (!result.library)
    SKIP(result.why_not);
  return result.library;
}

constexpr payload_shape shape{element_type::float32, 11'250'000}; // 45 MB

/// Whole numbers, whose sums are exact in any order; multiples of 4.
float number(size_t i, int rank) {
  return 4 * static_cast<float>((i * 7 + static_cast<size_t>(rank)) % 1000);
}

payload numbers(int rank) {
  payload_buffer out{shape};
  auto* at = reinterpret_cast<float*>(out.bytes().data());
  for (size_t i = 0; i < shape.count; ++i)
    at[i] = number(i, rank);
  return std::move(out).seal();
}

/// Where a tensor arrives, and whether it has.
struct arriving {
  payload_buffer memory{shape};
  std::optional<bool> there;

  std::span<std::byte> target() { return memory.bytes(); }

  ferry_done done() {
    return [this](bool how) {
      there = how;
    };
  }

  bool holds(const std::function<float(size_t)>& expected) {
    const auto* at = reinterpret_cast<const float*>(memory.bytes().data());
    for (size_t i = 0; i < shape.count; ++i)
      if (at[i] != expected(i))
        return false;
    return there == true;
  }
};

/// A ferry for each rank, polled in turn by one thread.
struct cast {
  explicit cast(library_ptr library) : lib(std::move(library)) {
    // nop
  }

  /// Skips when NCCL does not let ranks share a GPU.
  void meet() {
    ranks.clear();
    abi::unique_id id;
    auto code = lib->call().get_unique_id(&id);
    INFO(lib->explain(code));
    REQUIRE(code == abi::result::success);
    ferry_terms terms;
    terms.id = to_bytes(id);
    terms.size = size;
    terms.largest = shape;
    terms.limits = {60, 10, 10};
    for (terms.rank = 0; terms.rank < size; ++terms.rank) {
      terms.device = terms.rank % lib->devices();
      ranks.push_back(std::make_unique<ferry>(lib, terms, now()));
    }
    until([this] {
      return !failure().empty() ||
             std::ranges::all_of(
               ranks, [](const auto& one) { return one->takes(shape); });
    });
    auto why = failure();
    if (!why.empty() && lib->devices() < size)
      SKIP("NCCL " + version_text(lib->version()) + " does not let " +
           std::to_string(size) + " ranks share " +
           std::to_string(lib->devices()) + " GPUs: " + why);
    REQUIRE(why == "");
  }

  ferry& operator[](int rank) { return *ranks[static_cast<size_t>(rank)]; }

  std::string failure() {
    for (auto& one : ranks)
      if (auto why = one->failure(); !why.empty())
        return why;
    return "";
  }

  bool until(const std::function<bool()>& holds) {
    for (auto end = now() + 90; now() < end && !holds();) {
      for (auto& one : ranks)
        one->poll(now());
      std::this_thread::sleep_for(std::chrono::microseconds{50});
    }
    return holds();
  }

  /// Nothing of it touches memory any more.
  void end() {
    for (auto& one : ranks)
      one->stop("the test is over", now());
    CHECK(until([this] {
      auto busy = false;
      for (auto& one : ranks)
        busy |= one->poll(now());
      return !busy;
    }));
  }

  library_ptr lib;
  std::vector<std::unique_ptr<ferry>> ranks;
};

} // namespace

TEST_CASE("ranks on GPUs exchange, add up and publish the right bits") {
  cast all{real_library()};
  all.meet();

  SECTION("a push and a reply") {
    arriving push, reply;
    all[1].send(0, numbers(1), {});
    all[0].receive(1, push.target(), shape.type, push.done());
    REQUIRE(all.until([&] { return push.there.has_value(); }));
    CHECK(push.holds([](size_t i) { return number(i, 1); }));
    all[0].send(1, numbers(0), {});
    all[1].receive(0, reply.target(), shape.type, reply.done());
    REQUIRE(all.until([&] { return reply.there.has_value(); }));
    CHECK(reply.holds([](size_t i) { return number(i, 0); }));
  }
  SECTION("a synchronous step") {
    arriving mean, first, second;
    all[0].sum(mean.target(), shape.type, mean.done());
    all[1].give(numbers(1), .25, {});
    all[2].give(numbers(2), .75, {});
    all[0].tell(numbers(0), {});
    all[1].hear(first.target(), shape.type, first.done());
    all[2].hear(second.target(), shape.type, second.done());
    REQUIRE(all.until([&] { return first.there && second.there; }));
    CHECK(mean.holds(
      [](size_t i) { return .25F * number(i, 1) + .75F * number(i, 2); }));
    CHECK(first.holds([](size_t i) { return number(i, 0); }));
    CHECK(second.holds([](size_t i) { return number(i, 0); }));
  }
  SECTION("a rank that stops, and the next membership") {
    arriving first, second;
    all[1].hear(first.target(), shape.type, first.done());
    all[2].hear(second.target(), shape.type, second.done());
    all[0].stop("gone", now());
    for (int rank = 1; rank < size; ++rank)
      all[rank].stop("the members have changed", now());
    REQUIRE(all.until([&] { return first.there && second.there; }));
    CHECK(first.there == false);
    all.end();
    all.meet();
    arriving again;
    all[0].tell(numbers(0), {});
    all[1].hear(again.target(), shape.type, again.done());
    all[2].hear(second.target(), shape.type, second.done());
    REQUIRE(all.until([&] { return again.there && second.there == true; }));
    CHECK(again.holds([](size_t i) { return number(i, 0); }));
  }
  all.end();
}
