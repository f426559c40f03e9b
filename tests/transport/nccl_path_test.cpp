// The ends of a path over the fake NCCL, without actors.

#include "messages/transport/nccl/pair_carrier.hpp"
#include "tests/nccl/check_clean.hpp"
#include "tests/support/payloads.hpp"
#include "tests/support/sockets.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <chrono>
#include <future>
#include <thread>

using namespace troupe;
using namespace troupe::test;
using namespace troupe::transport;

using Catch::Matchers::ContainsSubstring;

using fake::check_clean;

namespace {

constexpr payload_shape path_shape{element_type::float32, 1000};

double seconds_now() {
  auto since = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(since).count();
}

/// Both ends, and a thread for each that polls it to its end.
struct pair_over_nccl {
  explicit pair_over_nccl(
    uint64_t seed = 1, const std::function<void()>& spoil = [] {}) {
    fake::reset(seed);
    spoil();
    auto [left, right] = socket_pair();
    nccl_terms with{fake::library(), 0, false, {0.5, 0.5, 0.2}, 0.5};
    far = open(std::move(right), with, far_carrier);
    with.device = 1;
    with.asks = true;
    near = open(std::move(left), with, near_carrier);
    // Whoever reads also gets the frames that a meeting needs.
    for (const auto& end : {near, far})
      pollers.push_back(std::async(std::launch::async, [end] {
        while (end->poll(seconds_now()))
          std::this_thread::sleep_for(std::chrono::microseconds(20));
      }));
  }

  ~pair_over_nccl() { end(); }

  static path_ptr open(transport::socket line, const nccl_terms& with,
                       pair_carrier*& carrier) {
    constexpr path_terms terms{path_shape};
    return std::make_shared<path>(
      std::move(line), terms, [&](frame_line& here) {
        auto out = std::make_unique<pair_carrier>(here, terms, with);
        carrier = out.get();
        return out;
      });
  }

  bool is_open() const {
    return near_carrier->is_open(path_shape) &&
           far_carrier->is_open(path_shape);
  }

  void end() {
    near->close("over");
    far->close("over");
    for (auto& one : pollers)
      one.wait();
  }

  /// Frames that arrive at an end, one after another, until it is closed.
  std::future<std::vector<frame>> read(const path_ptr& end, size_t count) {
    return std::async(std::launch::async, [end, count] {
      std::vector<frame> out;
      try {
        while (out.size() < count)
          if (auto next = end->receive())
            out.push_back(std::move(*next));
          else
            break;
      } catch (const path_error& err) {
        end->close(err.what());
      }
      return out;
    });
  }

  /// Lets both ends read, and report it, until both would use NCCL.
  bool meet() {
    auto till = seconds_now() + 5;
    auto served = read(far, 1);
    auto asked = read(near, 1);
    while (seconds_now() < till && !is_open() && near->why_closed().empty())
      std::this_thread::yield();
    far->send({frame_kind::refusal, transfer_id{1}, {}, {}});
    near->send({frame_kind::pull, transfer_id{1}, {}, {}});
    return served.get().size() == 1 && asked.get().size() == 1 && is_open();
  }

  path_ptr near, far;
  pair_carrier *near_carrier = nullptr, *far_carrier = nullptr;
  std::vector<std::future<void>> pollers;
};

} // namespace

TEST_CASE("an id of NCCL is the same after the way") {
  fake::reset(1);
  nccl::abi::unique_id id;
  REQUIRE(fake::library()->call().get_unique_id(&id) ==
          nccl::abi::result::success);
  auto back = nccl::to_abi(nccl::to_bytes(id));
  CHECK(std::equal(id.bytes, id.bytes + sizeof id.bytes, back.bytes));
}

TEST_CASE("tensors take the socket before both ends have met") {
  {
    pair_over_nccl it;
    auto gradient = random_payload(path_shape.count, 1);
    CHECK_FALSE(it.near_carrier->is_open(path_shape));
    it.near->send({frame_kind::push, transfer_id{1}, {}, gradient});
    auto found = it.read(it.far, 1).get();
    REQUIRE(found.size() == 1);
    CHECK(same_bytes(found[0].tensor, gradient));
  }
  check_clean();
}

TEST_CASE("tensors cross over NCCL, many at a time, both ways, bit for bit") {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    INFO("seed " << seed);
    {
      pair_over_nccl it{seed};
      REQUIRE(it.meet());
      auto before = fake::transfers();
      auto pushes = it.read(it.far, 8);
      auto answers = it.read(it.near, 8);
      for (uint64_t i = 1; i <= 8; ++i) {
        it.near->send({frame_kind::push,
                       transfer_id{i},
                       {},
                       random_payload(path_shape.count, i)});
        it.far->send({frame_kind::release,
                      transfer_id{i},
                      {},
                      random_payload(path_shape.count, 100 + i)});
      }
      auto found = pushes.get();
      auto theirs = answers.get();
      REQUIRE(found.size() == 8);
      REQUIRE(theirs.size() == 8);
      for (uint64_t i = 1; i <= 8; ++i) {
        CHECK(found[i - 1].request == transfer_id{i});
        CHECK(
          same_bytes(found[i - 1].tensor, random_payload(path_shape.count, i)));
        CHECK(same_bytes(theirs[i - 1].tensor,
                         random_payload(path_shape.count, 100 + i)));
      }
      // Bytes would have gone into the socket's buffer; these did not.
      CHECK(fake::transfers() - before == 16);
    }
    check_clean();
  }
}

TEST_CASE("what NCCL has no type for takes the socket") {
  CHECK_FALSE(nccl::type_of(element_type::byte));
  pair_over_nccl it;
  REQUIRE(it.meet());
  CHECK_FALSE(it.near_carrier->is_open({element_type::byte, 100}));
}

TEST_CASE("when NCCL fails the path ends with the reason") {
  auto reason = [](const std::function<void()>& spoil, bool meets) {
    std::string out;
    {
      pair_over_nccl it{1, spoil};
      CHECK(it.meet() == meets);
      if (meets) {
        auto pushes = it.read(it.far, 1);
        it.near->send({frame_kind::push,
                       transfer_id{1},
                       {},
                       random_payload(path_shape.count, 1)});
        CHECK(pushes.get().empty());
      }
      for (auto till = seconds_now() + 5; seconds_now() < till &&
                                          it.near->why_closed().empty() &&
                                          it.far->why_closed().empty();)
        std::this_thread::yield();
      // The end that closed first has the reason.
      out = it.near->why_closed() + ", " + it.far->why_closed();
    }
    return out;
  };
  SECTION("as it begins") {
    CHECK_THAT(reason([] { fake::wrong().refused = {0}; }, false),
               ContainsSubstring("NCCL"));
  }
  SECTION("since nobody comes") {
    CHECK_THAT(reason(
                 [] {
                   fake::wrong().never_meets = {0, 1};
                 },
                 false),
               ContainsSubstring("NCCL"));
  }
  SECTION("in the middle of a tensor") {
    CHECK_THAT(reason([] { fake::wrong().never_done = {1}; }, true),
               ContainsSubstring("NCCL"));
  }
  check_clean();
}

TEST_CASE("whoever waits for a tensor is woken when the path is closed") {
  {
    pair_over_nccl it{1, [] {
                        fake::wrong().never_done = {0, 1};
                      }};
    REQUIRE(it.meet());
    auto pushes = it.read(it.far, 1);
    it.near->send({frame_kind::push,
                   transfer_id{1},
                   {},
                   random_payload(path_shape.count, 1)});
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    it.far->close("enough");
    CHECK(pushes.get().empty());
  }
  check_clean();
}
