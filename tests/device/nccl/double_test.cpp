// The double of NCCL does what NCCL does, between threads' ranks and between
// processes, and reports who breaks its rules.

#include "tests/device/nccl/ranks.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <sys/wait.h>

#include <csignal>
#include <functional>

using namespace troupe::testing::fake_nccl;
using Catch::Matchers::ContainsSubstring;

namespace {

/// Computed on the rank's stream.
at::Tensor numbers_on(tested_rank& where, float first, int64_t count = 1000) {
  c10::StreamGuard guard{where.stream()};
  return at::arange(first, first + static_cast<float>(count), at::kFloat)
    .to(where.device());
}

at::Tensor room_on(tested_rank& where, int64_t count = 1000,
                   at::ScalarType type = at::kFloat) {
  c10::StreamGuard guard{where.stream()};
  return at::empty({count}, at::TensorOptions{type}.device(where.device()));
}

at::Tensor on_host(const at::Tensor& x) {
  return x.to(at::kCPU);
}

/// A tensor of a device, when the event behind its last work has happened.
at::Tensor result_of(tested_rank& where, const at::Tensor& x) {
  where.wait_here();
  return on_host(x);
}

bool is_range(const at::Tensor& x, float first) {
  return at::equal(
    x, at::arange(first, first + static_cast<float>(x.numel()), at::kFloat));
}

} // namespace

TEST_CASE("what one rank sends another receives") {
  for (int seed = 0; seed < 20; ++seed) {
    tested_ranks all{2};
    REQUIRE(all.meet());
    auto from = numbers_on(all[0], 7);
    auto to = room_on(all[1]);
    all[0].send(from, 1);
    all[1].receive(to, 0);
    REQUIRE(all.until_over());
    CHECK(is_range(result_of(all[1], to), 7));
    CHECK(breaches().empty());
  }
}

TEST_CASE("a sum is divided among the ranks, and gathered again") {
  for (int size = 1; size <= 4; ++size) {
    tested_ranks all{size};
    REQUIRE(all.meet());
    std::vector<at::Tensor> ranges, whole;
    for (auto& each : all.ranks) {
      ranges.push_back(room_on(*each, 100));
      whole.push_back(room_on(*each, 100 * size));
      each->reduce_scatter(
        numbers_on(*each, static_cast<float>(each->number()), 100 * size),
        ranges.back());
    }
    REQUIRE(all.until_over());
    for (size_t i = 0; i < whole.size(); ++i) {
      all.ranks[i]->wait_here();
      all.ranks[i]->all_gather(ranges[i], whole[i]);
    }
    REQUIRE(all.until_over());
    // The sum of i + rank over all ranks.
    auto expected =
      at::arange(100 * size, at::kFloat).mul(size) + size * (size - 1) / 2;
    for (size_t i = 0; i < whole.size(); ++i)
      CHECK(at::equal(result_of(*all.ranks[i], whole[i]), expected));
    CHECK(breaches().empty());
  }
}

TEST_CASE("numbers of 16 bits are added, too") {
  for (auto type : {at::kBFloat16, at::kHalf}) {
    tested_ranks all{2};
    REQUIRE(all.meet());
    std::vector<at::Tensor> out;
    for (auto& each : all.ranks) {
      out.push_back(room_on(*each, 8, type));
      each->reduce_scatter(at::full({16}, 1.5, type).to(each->device()),
                           out.back());
    }
    REQUIRE(all.until_over());
    CHECK(at::equal(result_of(all[1], out[1]), at::full({8}, 3., type)));
  }
}

TEST_CASE("two ranks on one GPU are refused") {
  tested_ranks all{2, /*devices=*/1};
  CHECK_FALSE(all.meet());
  CHECK_THAT(all[0].why(), ContainsSubstring("Duplicate GPU detected"));
}

TEST_CASE("nobody has met before all have come") {
  tested_ranks all{2};
  all.ranks.pop_back();
  CHECK_FALSE(all.meet());
  CHECK(all[0].why().empty());
}

// -- streams ------------------------------------------------------------------

TEST_CASE("who sends without waiting for what computes is told") {
  tested_ranks all{2};
  REQUIRE(all.meet());
  auto computes = all[0].other_stream();
  at::Tensor from;
  {
    c10::StreamGuard guard{computes};
    from = at::arange(1000, at::kFloat).to(all[0].device()) + 1;
  }
  SECTION("with an event all is well") {
    all[0].wait_for(computes);
    all[0].send(from, 1);
    CHECK(breaches().empty());
  }
  SECTION("without") {
    all[0].send(from, 1);
    all.until_come_in();
    CHECK_THAT(breaches(), ContainsSubstring("ncclSend on stream"));
    CHECK_THAT(breaches(), ContainsSubstring("and no event orders the two"));
  }
}

TEST_CASE("who reads without waiting for what arrives is told") {
  tested_ranks all{2};
  REQUIRE(all.meet());
  auto to = room_on(all[1]);
  all[0].send(numbers_on(all[0], 3), 1);
  all[1].receive(to, 0);
  all.let_go_on();
  c10::StreamGuard guard{all[1].other_stream()};
  SECTION("with an event all is well") {
    all[1].wait_here();
    CHECK(is_range(on_host(to), 3));
  }
  SECTION("without") {
    CHECK_THROWS_WITH(to + 1, ContainsSubstring("what ncclRecv on stream"));
  }
}

TEST_CASE("work behind a transfer that is not over is refused") {
  tested_ranks all{2};
  REQUIRE(all.meet());
  auto to = room_on(all[1]);
  all[1].receive(to, 0);
  all.until_come_in();
  c10::StreamGuard guard{all[1].other_stream()};
  all[1].wait_here();
  CHECK_THROWS_WITH(
    to + 1, ContainsSubstring("is behind ncclRecv, which is not over: it would "
                              "wait on the device for a peer"));
}

TEST_CASE("an event behind a transfer happens when that is over") {
  tested_ranks all{2};
  REQUIRE(all.meet());
  auto to = room_on(all[1]);
  all[1].receive(to, 0);
  all.until_come_in();
  for (int i = 0; i < 1000; ++i)
    CHECK_FALSE(all[1].is_over());
  all[0].send(numbers_on(all[0], 0), 1);
  CHECK(all.until_over());
}

TEST_CASE("memory that a transfer uses is not given to another") {
  tested_ranks all{2};
  REQUIRE(all.meet());
  auto taken = [&] {
    c10::StreamGuard guard{all[1].other_stream()};
    return at::empty({1000},
                     at::TensorOptions{at::kFloat}.device(all[1].device()));
  };
  const void* before = nullptr;
  {
    auto to = taken();
    before = to.const_data_ptr();
    all[1].receive(to, 0);
    all.until_come_in();
    to.record_stream(all[1].stream());
  }
  CHECK(taken().const_data_ptr() != before);
  all[0].send(numbers_on(all[0], 0), 1);
  REQUIRE(all.until_over());
  auto first = taken();
  CHECK(
    (first.const_data_ptr() == before || taken().const_data_ptr() == before));
}

// -- what goes wrong ----------------------------------------------------------

TEST_CASE("a transfer whose other end is gone ends by an abort alone") {
  tested_ranks all{2};
  REQUIRE(all.meet());
  auto to = room_on(all[0]);
  all[0].receive(to, 1);
  all.until_come_in();
  all.ranks.pop_back();
  CHECK_FALSE(all.until_over());
  all[0].abort();
  CHECK(all.until_over());
  // What the device has written until then.
  CHECK_FALSE(is_range(result_of(all[0], to), 0));
}

TEST_CASE("a rank may have its part of a sum while another never gets it") {
  auto differed = 0;
  for (int i = 0; i < 200 && differed == 0; ++i) {
    tested_ranks all{3};
    REQUIRE(all.meet());
    std::vector<at::Tensor> out;
    for (auto& each : all.ranks) {
      out.push_back(room_on(*each, 10));
      each->reduce_scatter(numbers_on(*each, 0, 30), out.back());
    }
    all.until_come_in();
    for (int j = 0; j < 3; ++j)
      for (auto& each : all.ranks)
        each->is_over();
    all.ranks.pop_back();
    all.until_over();
    differed += all[0].is_over() != all[1].is_over() ? 1 : 0;
  }
  CHECK(differed == 1);
}

TEST_CASE("faults are planned by rank") {
  tested_ranks all{2};
  SECTION("a rank that never meets") {
    all.spoil("never-meets:1");
    CHECK_FALSE(all.meet());
  }
  SECTION("a rank that meets badly") {
    all.spoil("meets-badly:1");
    CHECK_FALSE(all.meet());
    CHECK_THAT(all[1].why(), ContainsSubstring("a planned error"));
  }
  SECTION("calls that are refused") {
    REQUIRE(all.meet());
    all.spoil("call-fails:0");
    CHECK(all[0].send(numbers_on(all[0], 0), 1) == abi::result::internal_error);
  }
  SECTION("operations that never end") {
    REQUIRE(all.meet());
    all.spoil("never-done:1");
    all[0].send(numbers_on(all[0], 0, 5000), 1);
    all[1].receive(room_on(all[1], 5000), 0);
    CHECK_FALSE(all.until_over());
  }
}

TEST_CASE("rules that a program breaks are told") {
  tested_ranks all{2};
  REQUIRE(all.meet());
  auto tensor = numbers_on(all[0], 0);
  SECTION("a call before the one before has come in") {
    all.spoil("never-issued:0");
    all[0].send(tensor, 1);
    all[0].send(tensor, 1);
    CHECK_THAT(breaches(), ContainsSubstring("has not come in yet"));
  }
  SECTION("another device") {
    c10::DeviceGuard guard{all[1].device()};
    all[0].send_here(tensor, 1);
    CHECK_THAT(breaches(), ContainsSubstring("another device"));
  }
  SECTION("memory of the host") {
    all[0].send(at::zeros({1000}), 1);
    all.until_come_in();
    CHECK_THAT(breaches(),
               ContainsSubstring("memory that is not the device's"));
  }
  SECTION("sizes that differ") {
    all[0].send(tensor, 1);
    all[1].receive(room_on(all[1], 500), 0);
    CHECK_FALSE(all.until_over());
    CHECK_THAT(breaches(), ContainsSubstring("different sizes"));
  }
  SECTION("the end, twice") {
    all[0].abort();
    all[0].abort_again();
    CHECK_THAT(breaches(), ContainsSubstring("or it has ended"));
  }
}

// -- processes ----------------------------------------------------------------

namespace {

/// Another process, which is rank 1 and ends with what `work` returns.
class other_process {
public:
  other_process(const abi::unique_id& id,
                const std::function<int(tested_ranks&)>& work)
    : process_(fork()) {
    if (process_ == 0) {
      tested_ranks here{id, 2, {1}};
      _exit(work(here));
    }
  }

  ~other_process() { kill(); }

  int wait() {
    int status = 0;
    waitpid(std::exchange(process_, 0), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  void kill() {
    if (process_ != 0) {
      ::kill(process_, SIGKILL);
      wait();
    }
  }

private:
  pid_t process_;
};

} // namespace

TEST_CASE("ranks of two processes exchange numbers") {
  auto id = new_id();
  other_process other{id, [](tested_ranks& here) {
                        if (!here.meet())
                          return 2;
                        auto& mine = *here.ranks.front();
                        auto to = room_on(mine);
                        mine.receive(to, 0);
                        if (!here.until_over())
                          return 3;
                        c10::StreamGuard guard{mine.stream()};
                        mine.send(to + 1, 0);
                        if (!here.until_over())
                          return 4;
                        // What was sent is gone when this process is.
                        mine.receive(to, 0);
                        return here.until_over() ? 0 : 5;
                      }};
  tested_ranks here{id, 2, {0}};
  REQUIRE(here.meet());
  here[0].send(numbers_on(here[0], 5), 1);
  REQUIRE(here.until_over());
  auto back = room_on(here[0]);
  here[0].receive(back, 1);
  REQUIRE(here.until_over());
  CHECK(is_range(result_of(here[0], back), 6));
  here[0].send(numbers_on(here[0], 5), 1);
  CHECK(here.until_over());
  CHECK(other.wait() == 0);
}

TEST_CASE("a process that is killed leaves others waiting until they abort") {
  auto id = new_id();
  other_process other{id, [](tested_ranks& here) {
                        here.meet();
                        pause();
                        return 0;
                      }};
  tested_ranks here{id, 2, {0}};
  REQUIRE(here.meet());
  auto to = room_on(here[0]);
  here[0].receive(to, 1);
  here.until_come_in();
  other.kill();
  CHECK_FALSE(here.until_over());
  here[0].abort();
  CHECK(here.until_over());
}

TEST_CASE("a process that is killed does not hold the others up") {
  for (int i = 0; i < 20; ++i) {
    auto id = new_id();
    other_process other{id, [](tested_ranks& here) {
                          for (here.meet();;)
                            here.ranks.front()->is_over();
                          return 0;
                        }};
    tested_ranks here{id, 2, {0}};
    REQUIRE(here.meet());
    other.kill(); // Perhaps with the lock of both.
    for (int j = 0; j < 10; ++j)
      here[0].is_over();
  }
}
