// Which path a node takes when one has broken.

#include "actors/session/path_choice.hpp"
#include "messages/transport/nccl/gpu_network.hpp"
#include "messages/transport/shm/shared_memory.hpp"
#include "messages/transport/wire/acceptor.hpp"
#include "messages/transport/wire/meeting.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <future>
#include <string>
#include <vector>

using namespace troupe;

namespace {

constexpr payload_shape ten_floats{element_type::float32, 10};

/// A server that takes whoever comes, over shm and stream.
struct serving_end {
  serving_end() {
    offer.set_stream_port(desk.port());
    offer.set_shm_name(desk.name());
    offer.set_token(transport::random_token());
    desk.lead_to(transport::purpose::tensors,
                 [](transport::guest who) { who.welcome(); });
  }

  /// The name of the path that a node takes at that time.
  std::string path_of(path_choice& who, double now) {
    auto way =
      who.connect(offer, {"127.0.0.1", desk.port()}, {ten_floats}, now);
    return way ? std::string{way->name()} : "chunked";
  }

  transport::acceptor desk{{"127.0.0.1"}};
  proto::PathOffer offer;
};

path_choice make_choice(const std::string& wanted) {
  return {wanted, {std::make_shared<transport::shared_memory>()}, {}};
}

/// A GPU that nobody sends to.
struct lonely_gpu final : transport::gpu_network {
  int device() const override { return 0; }
  const std::string& gpu() const override { return name; }
  transport::group_id make_id() override { return {}; }
  transport::gpu_group_ptr open(const transport::group_id&, int, int,
                                const transport::group_patience&,
                                transport::phase_told) override {
    return nullptr;
  }

  std::string name = "host/1";
};

/// Of a node with a GPU.
struct choice_on_gpu {
  explicit choice_on_gpu(const std::string& wanted)
    : uut(wanted,
          {std::make_shared<transport::shared_memory>(),
           std::make_shared<lonely_gpu>()},
          [this](const std::string& line) { said.push_back(line); }) {
    // nop
  }

  std::vector<std::string> said;
  path_choice uut;
};

} // namespace

TEST_CASE("a path that broke rests for a minute") {
  serving_end it;
  auto choice = make_choice("auto");
  CHECK(it.path_of(choice, 0) == "shm");
  CHECK(choice.skip("shm", 10));
  CHECK(it.path_of(choice, 10) == "stream");
  CHECK(choice.skip("stream", 20));
  CHECK(it.path_of(choice, 69) == "chunked");
  CHECK(it.path_of(choice, 71) == "shm");
}

TEST_CASE("a path that broke is taken again with the server's next life") {
  serving_end it;
  auto choice = make_choice("auto");
  choice.meet("run/1");
  CHECK(choice.skip("shm", 10));
  choice.meet("run/1");
  CHECK(it.path_of(choice, 11) == "stream");
  choice.meet("run/2");
  CHECK(it.path_of(choice, 12) == "shm");
}

TEST_CASE("a path that is the only one wanted never rests") {
  serving_end it;
  auto choice = make_choice("shm");
  CHECK_FALSE(choice.skip("shm", 10));
  CHECK(it.path_of(choice, 11) == "shm");
}

TEST_CASE(
  "between two GPUs auto takes NCCL, and what replaces it if it breaks") {
  serving_end it;
  choice_on_gpu on{"auto"};
  CHECK(it.path_of(on.uut, 0) == "shm"); // The server's tensors lie elsewhere.
  it.offer.set_gpu("host/2");
  CHECK(it.path_of(on.uut, 1) == "nccl");
  CHECK(on.uut.skip("nccl", 2));
  CHECK(it.path_of(on.uut, 3) == "shm");
  CHECK(it.path_of(on.uut, 63) == "nccl");
  CHECK(on.said.empty());
}

TEST_CASE("NCCL that is wanted gives way to the stream, and to nothing else") {
  serving_end it;
  it.offer.set_gpu("host/2");
  choice_on_gpu on{"nccl"};
  CHECK(it.path_of(on.uut, 0) == "nccl");
  CHECK(on.uut.skip("nccl", 1));
  CHECK(it.path_of(on.uut, 2) == "stream");
  CHECK_FALSE(on.uut.skip("stream", 3));
  CHECK(it.path_of(on.uut, 4) == "stream");
}

TEST_CASE(
  "two nodes with one GPU do without NCCL, and say so if it is wanted") {
  serving_end it;
  it.offer.set_gpu("host/1");
  choice_on_gpu automatic{"auto"};
  CHECK(it.path_of(automatic.uut, 0) == "shm");
  CHECK(automatic.said.empty());
  choice_on_gpu on{"nccl"};
  CHECK(it.path_of(on.uut, 0) == "stream");
  CHECK(it.path_of(on.uut, 1) == "stream");
  CHECK(on.said == std::vector<std::string>{
                     "path         nccl is not used: the other end has the "
                     "same GPU"});
}

TEST_CASE("NCCL that is wanted where the server has no GPU is one line") {
  serving_end it;
  choice_on_gpu on{"nccl"};
  CHECK_THROWS_WITH(it.path_of(on.uut, 0),
                    Catch::Matchers::ContainsSubstring(
                      "--transport nccl: the parameter server does not offer "
                      "this path"));
}
