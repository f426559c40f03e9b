// GPUs of one process that send each other numbers over the double of NCCL,
// each with the thread that launches for it.

#include "tests/device/nccl/gpus.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <chrono>
#include <future>
#include <thread>

using namespace troupe;
using namespace troupe::test;
using namespace troupe::transport;
using Catch::Matchers::ContainsSubstring;

namespace {

/// Networks of one group, one for each device.
struct company {
  explicit company(int size, const group_patience& patience = {5, 5, 1}) {
    auto lib = fake_library();
    for (int i = 0; i < size; ++i)
      networks.push_back(models::nccl::make_network(
        lib, device_of(i), "gpu " + std::to_string(i)));
    auto id = networks.front()->make_id();
    for (int i = 0; i < size; ++i)
      groups.push_back(
        networks[static_cast<size_t>(i)]->open(id, i, size, patience, {}));
  }

  ~company() { spoil(""); }

  gpu_group& operator[](size_t i) { return *groups[i]; }

  bool become(gpu_group::phase wanted) {
    for (int i = 0; i < 5000; ++i) {
      if (std::ranges::all_of(
            groups, [&](const auto& each) { return each->state() == wanted; }))
        return true;
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
    }
    return false;
  }

  bool meet() { return become(gpu_group::phase::open); }

  std::vector<gpu_network_ptr> networks;
  std::vector<gpu_group_ptr> groups; ///< End before their networks.
};

/// What is called back.
template <class T>
struct answer {
  std::shared_ptr<std::promise<T>> promise =
    std::make_shared<std::promise<T>>();
  std::future<T> future = promise->get_future();

  std::function<void(T)> told() {
    return [to = promise](T x) {
      to->set_value(std::move(x));
    };
  }

  T get() {
    REQUIRE(future.wait_for(std::chrono::seconds{20}) ==
            std::future_status::ready);
    return future.get();
  }
};

} // namespace

TEST_CASE("GPUs send each other what their streams compute, in order") {
  company all{2};
  REQUIRE(all.meet());
  std::vector<answer<payload>> there(8), back(8);
  std::vector<answer<bool>> sent(8);
  for (size_t i = 0; i < 8; ++i) {
    all[1].receive(0, shape, there[i].told());
    all[0].send(1, computed(0, static_cast<float>(i)), sent[i].told());
  }
  for (size_t i = 0; i < 8; ++i) {
    CHECK(sent[i].get());
    auto got = there[i].get();
    CHECK(holds(got, range(static_cast<float>(i))));
    all[0].receive(1, shape, back[i].told());
    all[1].send(0, got, {});
    CHECK(holds(back[i].get(), range(static_cast<float>(i))));
  }
}

TEST_CASE("a part of a payload is sent, too") {
  company all{2};
  REQUIRE(all.meet());
  answer<payload> there;
  all[0].send(1, computed(0, 0).part(10, 100), {});
  all[1].receive(0, {shape.type, 100}, there.told());
  CHECK(holds(there.get(), range(10, 100)));
}

TEST_CASE("GPUs divide a sum among them, and gather its ranges") {
  company all{4};
  REQUIRE(all.meet());
  std::vector<answer<payload>> ranges(4), whole(4);
  gpu_cut cut{shape.type, {count / 4, 1, count / 2, count / 4 - 1}};
  for (size_t i = 0; i < 4; ++i)
    all[i].sum({{computed(static_cast<int>(i), static_cast<float>(i)), .5}},
               cut, summed_as::themselves, ranges[i].told());
  for (size_t i = 0; i < 4; ++i) {
    auto part = ranges[i].get();
    REQUIRE(part);
    CHECK(part.shape().count == cut.counts[i]);
    all[i].gather(part, cut, whole[i].told());
  }
  for (auto& each : whole)
    CHECK(holds(each.get(), range(0) * 2 + 3));
}

TEST_CASE("GPUs add up in 16 bits where that is wanted") {
  for (auto form : {summed_as::bfloat16, summed_as::float16}) {
    company all{2};
    REQUIRE(all.meet());
    std::vector<answer<payload>> ranges(2);
    gpu_cut cut{element_type::float32, {32, 32}};
    for (size_t i = 0; i < 2; ++i)
      all[i].sum({{computed(static_cast<int>(i), 0, 64)}}, cut, form,
                 ranges[i].told());
    CHECK(holds(ranges[0].get(), range(0, 32) * 2));
    auto second = ranges[1].get();
    CHECK(second.shape() == payload_shape{element_type::float32, 32});
    CHECK(holds(second, range(32, 32) * 2));
  }
}

TEST_CASE("a GPU adds several numbers to a sum, or none") {
  company all{2};
  REQUIRE(all.meet());
  std::vector<answer<payload>> ranges(2);
  gpu_cut cut{element_type::float32, {40, 24}};
  all[0].sum({{computed(0, 0, 64), 2}, {computed(0, 1, 64), 3}}, cut,
             summed_as::themselves, ranges[0].told());
  all[1].sum({}, cut, summed_as::themselves, ranges[1].told());
  CHECK(holds(ranges[0].get(), range(0, 40) * 5 + 3));
  CHECK(holds(ranges[1].get(), range(40, 24) * 5 + 3));
}

TEST_CASE("what lies in the host's memory is not sent") {
  company all{2};
  REQUIRE(all.meet());
  answer<bool> sent;
  all[0].send(1, payload_buffer{shape}.seal(), sent.told());
  CHECK_FALSE(sent.get());
  CHECK(all.groups[0]->state() == gpu_group::phase::over);
  CHECK_THAT(all[0].why_over(), ContainsSubstring("send of 8000 B to rank 1"));
}

TEST_CASE("a group to which not all come is over in time", "[double]") {
  fake_library();
  spoil("never-meets:0,never-meets:1");
  company all{2, {.2, 5, 1}};
  CHECK(all.become(gpu_group::phase::over));
  CHECK_THAT(all[0].why_over(),
             ContainsSubstring("not all of 2 ranks came in time"));
}

TEST_CASE("nobody waits longer than the deadline for one that does not come") {
  company all{2, {5, .2, 1}};
  REQUIRE(all.meet());
  answer<payload> first, second;
  all[1].receive(0, shape, first.told());
  all[1].receive(0, shape, second.told());
  CHECK_FALSE(first.get());
  CHECK_FALSE(second.get());
  CHECK(all[1].state() == gpu_group::phase::over);
  // One asked for later fails at once.
  answer<payload> late;
  all[1].receive(0, shape, late.told());
  CHECK_FALSE(late.get());
}

TEST_CASE("a group that ends fails what is under way") {
  company all{2};
  REQUIRE(all.meet());
  answer<payload> there;
  all[1].receive(0, shape, there.told());
  SECTION("by its own rank") {
    all[1].end("enough");
  }
  SECTION("when it is dropped") {
    all.groups.pop_back();
  }
  SECTION("when all are") {
    all.groups.clear();
  }
  CHECK_FALSE(there.get());
}

TEST_CASE("whoever is told may be the last to hold the network") {
  auto all = std::make_unique<company>(2, group_patience{5, .2, .2});
  REQUIRE(all->meet());
  std::vector<answer<payload>> there(3);
  for (auto& each : there)
    (*all)[1].receive(0, shape,
                      [network = all->networks[1], group = all->groups[1],
                       told = each.told()](payload x) mutable {
                        group.reset();
                        network.reset();
                        told(std::move(x));
                      });
  all.reset();
  for (auto& each : there)
    CHECK_FALSE(each.get());
}

TEST_CASE("whatever NCCL does wrong ends the group with a line", "[double]") {
  company all{2, {2, .3, .3}};
  REQUIRE(all.meet());
  for (const auto* fault : {"call-fails:1", "never-issued:1", "never-done:1",
                            "fails:1", "stuck:1"}) {
    INFO(fault);
    company other{2, {2, .3, .3}};
    REQUIRE(other.meet());
    spoil(fault);
    answer<payload> there;
    other[1].receive(0, shape, there.told());
    CHECK_FALSE(there.get());
    CHECK(other[1].state() == gpu_group::phase::over);
    CHECK_FALSE(other[1].why_over().empty());
    spoil("");
  }
}

TEST_CASE("NCCL that cannot be used is named, with what to do", "[double]") {
  fake_library();
  auto why = models::nccl::library::load("/no/such/libnccl.so").why_not;
  CHECK_THAT(why, ContainsSubstring("NCCL is off: cannot open /no/such/"));
  CHECK_THAT(why, ContainsSubstring("install NCCL 2.18.0 or a later 2.x, or "
                                    "name its file with TROUPE_NCCL_LIBRARY"));
  CHECK_THAT(models::nccl::library::load(FAKE_CUDA).why_not,
             ContainsSubstring("lacks ncclGetVersion"));
  CHECK(models::nccl::version_text(2708) == "2.7.8");
  CHECK(models::nccl::version_text(22809) == "2.28.9");
}
