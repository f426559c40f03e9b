#include "actors/runtime/inline_execution.hpp"
#include "messages/interfaces.hpp"

#include <caf/all.hpp>
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
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

/// Hands on what it is sent, and says on which thread if somebody asks.
caf::behavior relay(caf::event_based_actor*, std::vector<caf::actor> to,
                    std::promise<std::thread::id>* ran_on) {
  return {[=](int32_t x) {
    if (ran_on != nullptr)
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
T result_of(std::promise<T>& promise) {
  auto there = promise.get_future();
  REQUIRE(there.wait_for(long_enough) == std::future_status::ready);
  return there.get();
}

/// The threads that handle this many messages of one inline call to an actor
/// that takes so long for each; the first is the one that sent them.
std::vector<std::thread::id> handling(size_t messages,
                                      std::chrono::milliseconds each) {
  with_inline_execution config;
  std::promise<std::thread::id> sent;
  std::promise<std::vector<std::thread::id>> handled;
  caf::actor_system system{config};
  auto to =
    system.spawn<caf::lazy_init>([=, &handled](caf::event_based_actor*) {
      auto threads = std::make_shared<std::vector<std::thread::id>>();
      return caf::behavior{[=, &handled](int32_t) {
        threads->push_back(std::this_thread::get_id());
        if (threads->size() == messages)
          handled.set_value(*threads);
        std::this_thread::sleep_for(each);
      }};
    });
  auto begin = [=, &sent](caf::event_based_actor* self) {
    return caf::behavior{[=, &sent](int32_t x) {
      sent.set_value(std::this_thread::get_id());
      run_inline(self->system(), [&] {
        for (size_t i = 0; i < messages; ++i)
          self->send(to, x);
      });
    }};
  };
  caf::anon_send(system.spawn<caf::detached>(begin), int32_t{5});
  std::vector out{result_of(sent)};
  auto threads = result_of(handled);
  out.insert(out.end(), threads.begin(), threads.end());
  return out;
}

} // namespace

TEST_CASE(
  "whoever sends a message as an inline call runs what follows from it") {
  with_inline_execution config;
  std::promise<std::thread::id> first, second, third;
  caf::actor_system system{config};
  // Lazily: otherwise an actor may still run on a thread of the pool, on its
  // way to its first rest, when its message comes.
  auto last =
    system.spawn<caf::lazy_init>(relay, std::vector<caf::actor>{}, &third);
  auto middle = system.spawn<caf::lazy_init>(relay, std::vector{last}, &second);
  auto begin = system.spawn<caf::detached>(sender, middle, &first);
  caf::anon_send(begin, int32_t{1});
  auto thread = result_of(first);
  CHECK(result_of(second) == thread);
  CHECK(result_of(third) == thread);
}

TEST_CASE("without inline execution in the system a message is just sent") {
  init_messages();
  caf::actor_system_config config;
  std::promise<std::thread::id> first, second;
  caf::actor_system system{config};
  auto last = system.spawn(relay, std::vector<caf::actor>{}, &second);
  auto begin = system.spawn<caf::detached>(sender, last, &first);
  caf::anon_send(begin, int32_t{1});
  CHECK(result_of(second) != result_of(first));
}

// The actor that all send to is busy on one thread while others bring more
// mail.
TEST_CASE("whatever many threads send to one actor arrives") {
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

TEST_CASE("an inline call leaves the next message of an actor that takes long "
          "to the scheduler") {
  auto threads = handling(3, 5ms);
  CHECK(threads[1] == threads[0]);
  CHECK(threads[2] != threads[0]);
  CHECK(threads[3] != threads[0]);
}

// How many depends on the machine: a handler that is interrupted takes long,
// too.
TEST_CASE("an inline call handles a few brief messages of an actor itself") {
  constexpr size_t most = 4;
  size_t seen = 0;
  for (auto round = 0; round < 20; ++round) {
    auto threads = handling(6, 0ms);
    auto own = static_cast<size_t>(
      std::ranges::count(threads.begin() + 1, threads.end(), threads[0]));
    CHECK(own >= 1);
    CHECK(own <= most);
    seen = std::max(seen, own);
  }
  CHECK(seen > 1);
}

// Like an agent, to which one worker sends a lease and then a request for a
// gradient.
TEST_CASE("an inline call that has other actors to run comes back to one that "
          "has more mail") {
  with_inline_execution config;
  size_t own = 0;
  for (auto round = 0; round < 20; ++round) {
    std::promise<std::thread::id> sent;
    std::promise<std::vector<std::thread::id>> all;
    caf::actor_system system{config};
    auto last =
      system.spawn<caf::lazy_init>(relay, std::vector<caf::actor>{}, nullptr);
    auto middle =
      system.spawn<caf::lazy_init>([=, &all](caf::event_based_actor*) {
        auto threads = std::make_shared<std::vector<std::thread::id>>();
        return caf::behavior{[=, &all](int32_t x) {
          threads->push_back(std::this_thread::get_id());
          caf::anon_send(last, x);
          if (threads->size() == 2)
            all.set_value(*threads);
        }};
      });
    auto begin = system.spawn<caf::detached>(
      sender,
      system.spawn<caf::lazy_init>(relay, std::vector{middle, middle}, nullptr),
      &sent);
    caf::anon_send(begin, int32_t{1});
    auto thread = result_of(sent);
    own += static_cast<size_t>(std::ranges::count(result_of(all), thread));
  }
  CHECK(own > 20); // Whoever is interrupted takes long, and leaves the second.
}

TEST_CASE(
  "an inline call that cannot begin loses nothing that was sent before") {
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
