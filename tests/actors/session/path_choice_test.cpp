// Which path a node takes when one has broken.

#include "actors/session/path_choice.hpp"
#include "messages/transport/wire/meeting.hpp"

#include <catch2/catch_test_macros.hpp>

#include <future>

using namespace troupe;

namespace {

constexpr payload_shape ten_floats{element_type::float32, 10};

/// A server that takes whoever comes, over shm and stream.
struct serving_end {
  serving_end() {
    offer.set_stream_port(desk.port());
    offer.set_shm_name(desk.name());
    offer.set_token(transport::random_token());
    host = std::async(std::launch::async, [this] {
      while (!desk.is_closed())
        for (auto& who : desk.wait())
          who.welcome();
    });
  }

  ~serving_end() { desk.close(); }

  /// The name of the path that a node takes at that time.
  std::string path_of(path_choice& who, double now) {
    auto way = who.connect(offer, "127.0.0.1", {ten_floats}, now);
    return way ? std::string{way->name()} : "chunked";
  }

  transport::reception desk{{"127.0.0.1"}};
  proto::PathOffer offer;
  std::future<void> host;
};

path_choice make_choice(const std::string& wanted) {
  return {wanted, std::make_shared<transport::shared_memory>(), {}};
}

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
