// The real NCCL on real GPUs: three ranks in this process, which share GPUs
// where there are fewer and NCCL lets them; else as many ranks as GPUs. Skips
// only without NCCL or a GPU; whatever else does not work is a failure.

#include "messages/transport/nccl/nccl_transfer.hpp"

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

constexpr int most_ranks = 3;

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

  transfer_done done() {
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

/// An NCCL transfer for each rank, polled in turn by one thread.
struct cluster {
  explicit cluster(library_ptr library) : lib(std::move(library)) {
    // nop
  }

  /// With as many ranks as there can be.
  void meet() {
    auto why = try_to_meet();
    auto shared = lib->devices() < size;
    if (shared && why.find("Duplicate GPU") != std::string::npos) {
      WARN("NCCL " << version_text(lib->version()) << " does not let " << size
                   << " ranks share " << lib->devices() << " GPUs: " << why);
      end();
      size = lib->devices();
      why = try_to_meet();
    }
    REQUIRE(why == "");
  }

  /// Why it came to nothing; empty: all have met.
  std::string try_to_meet() {
    ranks.clear();
    abi::unique_id id;
    auto code = lib->call().get_unique_id(&id);
    INFO(lib->explain(code));
    REQUIRE(code == abi::result::success);
    nccl_transfer_terms terms;
    terms.id = to_bytes(id);
    terms.size = size;
    terms.largest = shape;
    terms.limits = {60, 10, 10};
    for (terms.rank = 0; terms.rank < size; ++terms.rank) {
      terms.device = terms.rank % lib->devices();
      ranks.push_back(std::make_unique<nccl_transfer>(lib, terms, now()));
    }
    until([this] {
      return !failure().empty() ||
             std::ranges::all_of(
               ranks, [](const auto& one) { return one->takes(shape); });
    });
    auto all = std::ranges::all_of(
      ranks, [](const auto& one) { return one->takes(shape); });
    auto why = failure();
    return why.empty() && !all ? "not all ranks came in time" : why;
  }

  nccl_transfer& operator[](int rank) {
    return *ranks[static_cast<size_t>(rank)];
  }

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

  /// Ends all transfers, so that none touches memory any more.
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
  int size = most_ranks;
  std::vector<std::unique_ptr<nccl_transfer>> ranks;
};

} // namespace

namespace {

void push_and_answer(cluster& all) {
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

/// The workers' gradients to the server, and its weights to all of them.
void step(cluster& all) {
  arriving mean;
  std::vector<std::unique_ptr<arriving>> heard;
  auto share =
    all.size == 3 ? std::vector{0.F, .25F, .75F} : std::vector{0.F, 1.F};
  all[0].sum(mean.target(), shape.type, mean.done());
  for (int rank = 1; rank < all.size; ++rank)
    all[rank].give(numbers(rank), share[static_cast<size_t>(rank)], {});
  all[0].tell(numbers(0), {});
  for (int rank = 1; rank < all.size; ++rank) {
    heard.push_back(std::make_unique<arriving>());
    all[rank].hear(heard.back()->target(), shape.type, heard.back()->done());
  }
  REQUIRE(all.until([&] {
    return mean.there && std::ranges::all_of(heard, [](const auto& one) {
             return one->there.has_value();
           });
  }));
  CHECK(mean.holds([&](size_t i) {
    float sum = 0;
    for (int rank = 1; rank < all.size; ++rank)
      sum += share[static_cast<size_t>(rank)] * number(i, rank);
    return sum;
  }));
  for (const auto& one : heard)
    CHECK(one->holds([](size_t i) { return number(i, 0); }));
}

/// A rank stops, and the others meet anew.
void next_membership(cluster& all) {
  arriving lost;
  all[1].hear(lost.target(), shape.type, lost.done());
  all[0].stop("gone", now());
  for (int rank = 1; rank < all.size; ++rank)
    all[rank].stop("the members have changed", now());
  REQUIRE(all.until([&] { return lost.there.has_value(); }));
  CHECK(lost.there == false);
  all.end();
  all.meet();
  step(all);
}

} // namespace

TEST_CASE("ranks on GPUs exchange, add up and publish the right bits") {
  cluster all{real_library()};
  all.meet();
  // With one rank alone: a sum of nothing, and a broadcast to nobody.
  step(all);
  if (all.size > 1) {
    push_and_answer(all);
    next_membership(all);
  }
  all.end();
}
