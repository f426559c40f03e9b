// The ends of a path between two GPUs of this process, over the double of NCCL,
// without actors.

#include "messages/transport/nccl/pair_carrier.hpp"
#include "messages/transport/wire/path.hpp"
#include "tests/device/nccl/gpus.hpp"
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

namespace {

bool soon(const std::function<bool()>& holds) {
  for (int i = 0; i < 5000; ++i) {
    if (holds())
      return true;
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
  return false;
}

/// A worker's end on cuda:0, and a server's on cuda:1.
struct gpu_pair {
  explicit gpu_pair(const group_patience& patience = {2, 2, 1}) {
    auto [left, right] = socket_pair();
    far = open(std::move(right), 1, patience, far_carrier);
    near = open(std::move(left), 0, patience, near_carrier);
  }

  ~gpu_pair() {
    near->close("over");
    far->close("over");
    spoil("");
  }

  static path_ptr open(transport::socket line, int device,
                       const group_patience& patience, pair_carrier*& carrier) {
    pair_terms with{models::nccl::make_network(fake_library(),
                                               device_of(device),
                                               "gpu " + std::to_string(device)),
                    device == 0, patience};
    return std::make_shared<path>(std::move(line), path_terms{shape},
                                  [&](frame_line& here) {
                                    auto out = std::make_unique<pair_carrier>(
                                      here, path_terms{shape}, std::move(with));
                                    carrier = out.get();
                                    return out;
                                  });
  }

  /// Frames that arrive at an end, one after another, until it is closed.
  static std::future<std::vector<frame>> read(const path_ptr& end,
                                              size_t frames) {
    return std::async(std::launch::async, [end, frames] {
      std::vector<frame> out;
      try {
        while (out.size() < frames)
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

  /// Lets both ends read until both would use NCCL.
  bool meet() {
    auto served = read(far, 1);
    auto asked = read(near, 1);
    auto open = soon(
      [this] { return near_carrier->is_open() && far_carrier->is_open(); });
    far->send({frame_kind::refusal, transfer_id{1}, {}, {}});
    near->send({frame_kind::pull, transfer_id{1}, {}, {}});
    return open && served.get().size() == 1 && asked.get().size() == 1;
  }

  void push(uint64_t request, payload gradient) {
    near->send({frame_kind::push, transfer_id{request}, {}, gradient});
  }

  path_ptr near, far;
  pair_carrier *near_carrier = nullptr, *far_carrier = nullptr;
};

} // namespace

TEST_CASE("what lies on a GPU takes the socket before both ends have met") {
  gpu_pair it;
  CHECK_FALSE(it.near_carrier->is_open());
  it.push(1, computed(0, 5));
  auto found = it.read(it.far, 1).get();
  REQUIRE(found.size() == 1);
  CHECK(found[0].tensor.device() == nullptr);
  CHECK(same_bytes(found[0].tensor, computed(0, 5)));
}

TEST_CASE("numbers cross between GPUs, many at a time, both ways") {
  gpu_pair it;
  REQUIRE(it.meet());
  auto pushes = it.read(it.far, 8);
  auto answers = it.read(it.near, 8);
  for (uint64_t i = 1; i <= 8; ++i) {
    it.push(i, computed(0, static_cast<float>(i)));
    it.far->send({frame_kind::release,
                  transfer_id{i},
                  {},
                  computed(1, static_cast<float>(100 + i))});
  }
  auto found = pushes.get();
  auto theirs = answers.get();
  REQUIRE(found.size() == 8);
  REQUIRE(theirs.size() == 8);
  for (uint64_t i = 1; i <= 8; ++i) {
    CHECK(found[i - 1].request == transfer_id{i});
    CHECK(holds(found[i - 1].tensor, range(static_cast<float>(i))));
    CHECK(found[i - 1].tensor.device()->device() == device_of(1));
    CHECK(holds(theirs[i - 1].tensor, range(static_cast<float>(100 + i))));
    CHECK(theirs[i - 1].tensor.device()->device() == device_of(0));
  }
}

TEST_CASE("what lies in the host's memory, or elsewhere, takes the socket") {
  gpu_pair it;
  REQUIRE(it.meet());
  auto pushes = it.read(it.far, 2);
  auto of_host = random_payload(count, 1);
  it.push(1, of_host);
  it.push(2, computed(3, 7));
  auto found = pushes.get();
  REQUIRE(found.size() == 2);
  CHECK(found[0].tensor.device() == nullptr);
  CHECK(same_bytes(found[0].tensor, of_host));
  CHECK(found[1].tensor.device() == nullptr);
  CHECK(same_bytes(found[1].tensor, computed(3, 7)));
}

TEST_CASE("when a group fails the path ends with the reason", "[double]") {
  gpu_pair it{{.4, .4, .2}};
  SECTION("since nobody comes") {
    spoil("never-meets:0,never-meets:1");
    CHECK_FALSE(it.meet());
  }
  SECTION("in the middle of a tensor") {
    REQUIRE(it.meet());
    spoil("never-done:1");
    auto pushes = it.read(it.far, 1);
    it.push(1, computed(0, 0));
    CHECK(pushes.get().empty());
  }
  CHECK(soon([&] {
    return (it.near->why_closed() + it.far->why_closed()).find("NCCL") !=
           std::string::npos;
  }));
}

TEST_CASE("whoever waits for numbers is woken when an end is closed",
          "[double]") {
  for (auto near : {false, true}) {
    gpu_pair it{{2, 60, 1}};
    REQUIRE(it.meet());
    spoil("never-done:1");
    auto pushes = it.read(it.far, 1);
    it.push(1, computed(0, 0));
    std::this_thread::sleep_for(std::chrono::milliseconds{30});
    (near ? it.near : it.far)->close("enough");
    CHECK(pushes.get().empty());
  }
}
