#include "actors/runtime/inline_execution.hpp"
#include "messages/interfaces.hpp"

#include <caf/all.hpp>
#include <catch2/catch_test_macros.hpp>

#include <atomic>
#include <chrono>
#include <future>
#include <thread>
#include <vector>

namespace {

using namespace troupe;
using namespace std::chrono_literals;

constexpr auto long_enough = 60s;

struct with_inline_execution : caf::actor_system_config {
  with_inline_execution() {
    init_messages();
    allow_inline_execution(*this, 2);
  }
};

/// Hands on what it is sent, and says on which thread.
caf::behavior relay(caf::event_based_actor*, std::vector<caf::actor> to,
                    std::promise<std::thread::id>* ran_on) {
  return {[=](int32_t x) {
    ran_on->set_value(std::this_thread::get_id());
    for (const auto& next : to)
      caf::anon_send(next, x);
  }};
}

/// Sends its mail on as an inline call, and says on which thread.
caf::behavior sender(caf::event_based_actor* self, caf::actor to,
                     std::promise<std::thread::id>* ran_on) {
  return {[=](int32_t x) {
    ran_on->set_value(std::this_thread::get_id());
    run_inline(self->system(), [=] { self->send(to, x); });
  }};
}

/// Counts what it is sent up to `expected`.
caf::behavior counter(caf::event_based_actor* self, int32_t expected,
                      std::promise<int32_t>* all) {
  auto sum = std::make_shared<int32_t>(0);
  auto left = std::make_shared<int32_t>(expected);
  return {[=](int32_t x) {
    *sum += x;
    if (--*left == 0)
      all->set_value(*sum);
    (void)self;
  }};
}

template <class T>
T result_of(std::promise<T>& what) {
  auto there = what.get_future();
  REQUIRE(there.wait_for(long_enough) == std::future_status::ready);
  return there.get();
}

} // namespace

TEST_CASE(
  "Whoever sends a message as an inline call runs what follows from it") {
  with_inline_execution config;
  std::promise<std::thread::id> first, second, third;
  caf::actor_system system{config};
  // Lazily: else one may still be on its way to its first rest, on a thread of
  // the pool, when its message comes.
  auto last =
    system.spawn<caf::lazy_init>(relay, std::vector<caf::actor>{}, &third);
  auto middle = system.spawn<caf::lazy_init>(relay, std::vector{last}, &second);
  auto begin = system.spawn<caf::detached>(sender, middle, &first);
  caf::anon_send(begin, int32_t{1});
  auto thread = result_of(first);
  CHECK(result_of(second) == thread);
  CHECK(result_of(third) == thread);
}

TEST_CASE("Without inline execution in the system a message is just sent") {
  init_messages();
  caf::actor_system_config config;
  std::promise<std::thread::id> first, second;
  caf::actor_system system{config};
  auto last = system.spawn(relay, std::vector<caf::actor>{}, &second);
  auto begin = system.spawn<caf::detached>(sender, last, &first);
  caf::anon_send(begin, int32_t{1});
  CHECK(result_of(second) != result_of(first));
}

// The one asked by all is busy on one thread while others bring more mail.
TEST_CASE("Whatever many threads send to one actor arrives") {
  constexpr int32_t threads = 8;
  constexpr int32_t rounds = 500;
  with_inline_execution config;
  std::promise<int32_t> all;
  caf::actor_system system{config};
  auto sum = system.spawn(counter, threads * rounds, &all);
  auto middle = system.spawn([=](caf::event_based_actor*) {
    return caf::behavior{[=](int32_t x) {
      caf::anon_send(sum, x);
    }};
  });
  auto send_all = [=](caf::event_based_actor* self) {
    return caf::behavior{[=](int32_t x) {
      for (int32_t i = 0; i < rounds; ++i)
        run_inline(self->system(), [=] { self->send(middle, x); });
    }};
  };
  for (int32_t i = 0; i < threads; ++i)
    caf::anon_send(system.spawn<caf::detached>(send_all), i);
  CHECK(result_of(all) == rounds * threads * (threads - 1) / 2);
}

TEST_CASE("What an inline call could not finish is left to the scheduler") {
  with_inline_execution config;
  std::promise<std::thread::id> sent;
  std::promise<std::vector<std::thread::id>> handled;
  caf::actor_system system{config};
  auto to = system.spawn<caf::lazy_init>([&handled](caf::event_based_actor*) {
    auto threads = std::make_shared<std::vector<std::thread::id>>();
    return caf::behavior{[threads, &handled](int32_t) {
      threads->push_back(std::this_thread::get_id());
      if (threads->size() == 3)
        handled.set_value(*threads);
    }};
  });
  auto begin = [to, &sent](caf::event_based_actor* self) {
    return caf::behavior{[self, to, &sent](int32_t x) {
      sent.set_value(std::this_thread::get_id());
      run_inline(self->system(), [&] {
        for (int32_t i = 0; i < 3; ++i)
          self->send(to, x);
      });
    }};
  };
  caf::anon_send(system.spawn<caf::detached>(begin), int32_t{5});
  auto own = result_of(sent);
  auto threads = result_of(handled);
  CHECK(threads[0] == own);
  CHECK(threads[1] != own);
  CHECK(threads[2] != own);
}

TEST_CASE(
  "An inline call that cannot begin loses nothing that was sent before") {
  with_inline_execution config;
  std::promise<int32_t> all;
  caf::actor_system system{config};
  auto sum = system.spawn(counter, 1, &all);
  auto begin = [=](caf::event_based_actor* self) {
    return caf::behavior{[=](int32_t x) {
      try {
        run_inline(self->system(), [=] {
          self->send(sum, x);
          throw std::runtime_error("on purpose");
        });
      } catch (const std::runtime_error&) {
        // As expected.
      }
    }};
  };
  caf::anon_send(system.spawn<caf::detached>(begin), int32_t{7});
  CHECK(result_of(all) == 7);
}
