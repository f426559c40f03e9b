// Shards and workers of peers that meet over the double of NCCL, each node with
// a GPU of this process.

#include "messages/transport/nccl/gpu_exchange.hpp"
#include "tests/device/nccl/gpus.hpp"

#include <catch2/catch_test_macros.hpp>

#include <chrono>
#include <future>
#include <thread>

using namespace troupe;
using namespace troupe::test;
using namespace troupe::transport;

namespace {

gpu_cut three_ranges() {
  return {element_type::float32, {30, 50, 20}};
}

constexpr uint64_t all_numbers = 100;

push_id push_of_node(uint32_t node) {
  return {worker_id{node}, life_number{1}, sequence{1}};
}

struct nodes {
  nodes() {
    auto lib = fake_library();
    for (int i = 0; i < 3; ++i)
      all.push_back(std::make_shared<gpu_exchange>(models::nccl::make_network(
        lib, device_of(i), "gpu " + std::to_string(i))));
    exchange_terms terms;
    terms.id = all.front()->make_id();
    terms.cut = three_ranges();
    terms.patience = {5, 5, 1};
    for (int i = 0; i < 3; ++i) {
      terms.rank = i;
      all[static_cast<size_t>(i)]->open(terms, [](const std::string&) {});
    }
  }

  ~nodes() { spoil(""); }

  bool meet() const {
    for (int i = 0; i < 5000; ++i) {
      if (std::ranges::all_of(all,
                              [](const auto& one) { return one->is_open(); }))
        return true;
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
    }
    return false;
  }

  /// Has all nodes add up these gradients; the ranges, by node.
  std::vector<std::future<payload>> sum(const std::vector<push_id>& ids,
                                        const std::vector<double>& shares) {
    std::vector<std::future<payload>> out;
    for (const auto& one : all) {
      auto there = std::make_shared<std::promise<payload>>();
      out.push_back(there->get_future());
      one->sum(ids, shares,
               [there](payload x) { there->set_value(std::move(x)); });
    }
    return out;
  }

  std::vector<gpu_exchange_ptr> all;
};

payload get(std::future<payload>& there) {
  REQUIRE(there.wait_for(std::chrono::seconds{20}) ==
          std::future_status::ready);
  return there.get();
}

std::future<payload> weights_of(gpu_exchange& at, version of) {
  auto there = std::make_shared<std::promise<payload>>();
  at.await_weights(of, [there](payload x) { there->set_value(std::move(x)); });
  return there->get_future();
}

} // namespace

TEST_CASE("each node gets its range of the mean of what workers offer") {
  nodes on;
  REQUIRE(on.meet());
  for (uint32_t i = 0; i < 3; ++i)
    on.all[i]->offer(
      push_of_node(i),
      computed(static_cast<int>(i), static_cast<float>(i), all_numbers));
  SECTION("all of them") {
    auto ranges =
      on.sum({push_of_node(0), push_of_node(1), push_of_node(2)}, {1, 2, 1});
    CHECK(holds(get(ranges[0]), range(1, 30)));
    CHECK(holds(get(ranges[1]), range(31, 50)));
    CHECK(holds(get(ranges[2]), range(81, 20)));
  }
  SECTION("an earlier one, though its worker offers another since") {
    on.all[1]->offer({worker_id{1}, life_number{2}, sequence{1}},
                     computed(1, 50, all_numbers));
    auto ranges = on.sum({push_of_node(0), push_of_node(1)}, {1, 1});
    CHECK(holds(get(ranges[0]), range(.5, 30)));
    std::vector<push_id> other{{worker_id{1}, life_number{2}, sequence{1}}};
    on.all[1]->drop(other);
    ranges = on.sum({push_of_node(2), other[0]}, {1, 0});
    CHECK(holds(get(ranges[0]), range(2, 30)));
  }
  SECTION("those whose gradients make the step") {
    auto ranges = on.sum({push_of_node(2)}, {7});
    CHECK(holds(get(ranges[0]), range(2, 30)));
    CHECK(holds(get(ranges[1]), range(32, 50)));
    CHECK(holds(get(ranges[2]), range(82, 20)));
  }
}

TEST_CASE("a worker gets the weights of all shards, asked for early or late") {
  nodes on;
  REQUIRE(on.meet());
  auto early = weights_of(*on.all[0], version{4});
  on.all[0]->gather(version{4}, computed(0, 0, 30));
  on.all[1]->gather(version{4}, computed(1, 30, 50));
  on.all[2]->gather(version{4}, computed(2, 80, 20));
  CHECK(holds(get(early), range(0, all_numbers)));
  for (size_t i : {1, 2}) {
    auto late = weights_of(*on.all[i], version{4});
    CHECK(holds(get(late), range(0, all_numbers)));
  }
}

TEST_CASE("whoever waits for weights is told when another asks") {
  nodes on;
  REQUIRE(on.meet());
  auto earlier = weights_of(*on.all[0], version{4});
  auto later = weights_of(*on.all[0], version{4});
  CHECK_FALSE(get(earlier));
  on.all[0]->gather(version{4}, computed(0, 0, 30));
  on.all[1]->gather(version{4}, computed(1, 30, 50));
  on.all[2]->gather(version{4}, computed(2, 80, 20));
  CHECK(holds(get(later), range(0, all_numbers)));
}

TEST_CASE("whoever waits for a sum or for weights is told of the end") {
  nodes on;
  REQUIRE(on.meet());
  auto weights = weights_of(*on.all[1], version{4});
  auto there = std::make_shared<std::promise<payload>>();
  auto sum = there->get_future();
  // The other nodes never add up.
  std::vector<push_id> ids{push_of_node(1)};
  std::vector<double> shares{1};
  on.all[1]->sum(ids, shares,
                 [there](payload x) { there->set_value(std::move(x)); });
  on.all[1]->gather(version{4}, computed(1, 30, 50));
  on.all[1]->end("a node is lost");
  CHECK_FALSE(get(sum));
  CHECK_FALSE(get(weights));
  CHECK_FALSE(on.all[1]->is_open());
  CHECK(on.all[1]->why_over() == "a node is lost");
  auto later = weights_of(*on.all[1], version{5});
  CHECK_FALSE(get(later));
}
