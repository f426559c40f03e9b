// What every path must do, whatever lies between the two ends of a link.

#include "messages/protocol.hpp"
#include "tests/support/scores.hpp"
#include "tests/support/sockets.hpp"
#include "tests/transport/rig.hpp"

#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include <set>

using namespace troupe;
using troupe::testing::scored;
using namespace troupe::test;

namespace {

constexpr auto f32 = element_type::float32;
constexpr auto f64 = element_type::float64;

/// All paths that there are.
std::string any_path() {
  return GENERATE(as<std::string>{}, "inproc", "chunked", "stream", "shm");
}

/// Those between processes.
std::string any_far_path() {
  return GENERATE(as<std::string>{}, "chunked", "stream", "shm");
}

outcome push(caf::scoped_actor& self, const parameter_server_actor& link,
             const push_header& header, const payload& gradient) {
  outcome out;
  self->request(link, long_enough, push_atom_v, header, gradient)
    .receive(
      [&](const release_header& release, const payload& weights) {
        out.header = release;
        out.weights = weights;
      },
      [&](const caf::error& why) { out.error = why; });
  return out;
}

outcome push(rig& it, const parameter_server_actor& link, uint64_t number) {
  caf::scoped_actor self{it.system()};
  return push(self, link, numbered(number), seeded(it.shape(), number));
}

/// Pushes without waiting; `take_outcomes` collects.
class pusher {
public:
  pusher(rig& it, parameter_server_actor link)
    : it_(it), link_(std::move(link)), self_(it.system()) {
    // nop
  }

  void push(uint64_t number) {
    self_->send(helper(), number, seeded(it_.shape(), number));
  }

  bool wait(size_t count) {
    return eventually([&] {
      std::lock_guard guard{state_->mutex};
      return state_->done.size() >= count;
    });
  }

  std::vector<std::pair<uint64_t, outcome>> take_outcomes() {
    std::lock_guard guard{state_->mutex};
    return std::exchange(state_->done, {});
  }

private:
  struct shared {
    std::mutex mutex;
    std::vector<std::pair<uint64_t, outcome>> done;
  };

  caf::actor helper() {
    return it_.system().spawn(
      [state = state_, link = link_](caf::event_based_actor* self) {
        return caf::behavior{[=](uint64_t number, const payload& gradient) {
          auto end = [=](outcome item) {
            std::lock_guard guard{state->mutex};
            state->done.emplace_back(number, std::move(item));
            self->quit();
          };
          self
            ->request(link, caf::infinite, push_atom_v, numbered(number),
                      gradient)
            .then(
              [=](const release_header& header, const payload& weights) {
                end({header, weights, {}});
              },
              [=](const caf::error& why) {
                end({{}, {}, why});
              });
        }};
      });
  }

  rig& it_;
  parameter_server_actor link_;
  caf::scoped_actor self_;
  std::shared_ptr<shared> state_ = std::make_shared<shared>();
};

void check_round_trips(const std::string& kind, payload_shape shape,
                       uint64_t count) {
  INFO(kind << ", " << shape.bytes() << " bytes");
  rig it{kind, shape};
  auto link = it.connect();
  for (uint64_t i = 1; i <= count; ++i) {
    auto done = push(it, link, i);
    INFO(caf::to_string(done.error.value_or(caf::error{})));
    REQUIRE(!done.error);
    CHECK(done.header->weights == version{i});
    CHECK(done.weights.shape() == shape);
    CHECK(is_seeded(done.weights, i));
  }
  CHECK(it.log->arrived == count);
  CHECK(it.log->damaged == 0);
}

} // namespace

// -- what arrives -------------------------------------------------------------

TEST_CASE("a gradient and its answer arrive whole, whatever their size") {
  auto kind = any_path();
  for (auto count : {0, 1, 2, 3, 1023, 1024, 1025, 425'001})
    for (auto type : {f32, f64})
      check_round_trips(kind, {type, static_cast<uint64_t>(count)}, 3);
}

TEST_CASE("45 MB arrive whole") {
  check_round_trips(any_path(), {f32, 11'250'001}, 4);
}

TEST_CASE("headers, refusals and scores pass as they are") {
  auto kind = any_path();
  rig it{kind, {f32, 1000}};
  it.log->answer = [](const push_header& header,
                      const payload&) -> caf::result<release_header, payload> {
    return caf::make_error(same_bits(header.loss, 5e-324) ? errc::not_finite
                                                          : errc::failed,
                           std::string{"worker 1: NaN"});
  };
  auto link = it.connect();
  auto no = push(it, link, 1);
  REQUIRE(no.error);
  CHECK(*no.error == errc::not_finite);
  CHECK(text_of(*no.error) == "worker 1: NaN");
  caf::scoped_actor self{it.system()};
  self->request(link, long_enough, watch_atom_v, watch_request{version{3}})
    .receive([](const watch_header&, const payload&) { FAIL("no version"); },
             [](const caf::error& why) { CHECK(why == errc::shutting_down); });
  it.log->held.push_back(seeded(it.shape(), 5));
  self->request(link, long_enough, watch_atom_v, watch_request{version{3}})
    .receive(
      [](const watch_header& header, const payload& weights) {
        CHECK(header.weights == version{3});
        CHECK(header.last);
        CHECK(is_seeded(weights, 5));
      },
      [](const caf::error& why) { FAIL(caf::to_string(why)); });
  self->send(link, score_atom_v, scored(3, 0.5));
  CHECK(eventually([&] {
    std::lock_guard guard{it.log->mutex};
    return it.log->scores == 1;
  }));
}

TEST_CASE("a gradient of another size than the model's is told, not sent") {
  auto kind = any_far_path();
  rig it{kind, {f32, 1000}};
  it.log->answer =
    [](const push_header&,
       const payload& gradient) -> caf::result<release_header, payload> {
    auto only_told = !gradient && gradient.shape().count == 999;
    return caf::make_error(errc::wrong_size,
                           std::string{only_told ? "no" : "what?"});
  };
  auto link = it.connect();
  caf::scoped_actor self{it.system()};
  auto no = push(self, link, numbered(1), seeded({f32, 999}, 1));
  REQUIRE(no.error);
  CHECK(*no.error == errc::wrong_size);
  CHECK(text_of(*no.error) == "no");
  it.log->answer = nullptr;
  CHECK(is_seeded(push(it, link, 2).weights, 2));
}

// -- many ---------------------------------------------------------------------

TEST_CASE("many requests at once do not mix") {
  auto kind = any_path();
  auto count = GENERATE(as<uint64_t>{}, 1000, 1'250'000);
  rig it{kind, {f32, count}};
  pusher all{it, it.connect()};
  for (uint64_t round = 0; round < 4; ++round) {
    for (uint64_t i = 1; i <= max_pushes_in_flight - 1; ++i)
      all.push(10 * round + i);
    REQUIRE(all.wait(max_pushes_in_flight - 1));
    std::set<uint64_t> seen;
    for (const auto& [number, done] : all.take_outcomes()) {
      REQUIRE(!done.error);
      CHECK(done.header->weights == version{number});
      CHECK(is_seeded(done.weights, number));
      seen.insert(number);
    }
    CHECK(seen.size() == max_pushes_in_flight - 1);
  }
  CHECK(it.log->damaged == 0);
}

// -- ends ---------------------------------------------------------------------

TEST_CASE("a peer that goes in the middle of a transfer is told of, and "
          "nothing stays behind") {
  auto kind = any_far_path();
  auto seed = GENERATE(Catch::Generators::range(1u, 13u));
  std::mt19937_64 random{seed};
  auto count = std::uniform_int_distribution<uint64_t>{1, 12'000'000}(random);
  auto pause = std::chrono::microseconds(random() % 15'000);
  auto near_goes = random() % 2 == 0;
  INFO(kind << ", seed " << seed);
  auto files = open_files();
  {
    rig it{kind, {f32, count}};
    auto before = it.actors();
    auto link = it.connect();
    pusher all{it, link};
    auto with = it.actors();
    for (uint64_t i = 1; i <= 3; ++i)
      all.push(i);
    std::this_thread::sleep_for(pause);
    if (near_goes)
      caf::anon_send_exit(link, caf::exit_reason::kill);
    else
      caf::anon_send_exit(it.gateway, caf::exit_reason::kill);
    REQUIRE(all.wait(3));
    for (const auto& [number, done] : all.take_outcomes())
      CHECK((done.error || is_seeded(done.weights, number)));
    CHECK(it.log->damaged == 0);
    CHECK(with > before);
    INFO("actors before " << before << ", with the link " << with << ", now "
                          << it.actors());
    // One is the pusher's own.
    CHECK(eventually([&] { return it.actors() <= before + 1; }));
    // A new one works as before.
    auto next = it.connect();
    CHECK(is_seeded(push(it, next, 9).weights, 9));
  }
  CHECK(eventually([&] { return open_files() == files; }));
}

TEST_CASE("a token is good once, and for a peer that is there") {
  auto kind = GENERATE(as<std::string>{}, "stream", "shm");
  rig it{kind, {f32, 1000}};
  auto connect = [&](const proto::PathOffer& offer) {
    return path_choice{kind, {it.memory}, {}}.connect(offer, it.address(),
                                                      {it.shape()});
  };
  auto offer = it.invite(it.make_gateway());
  auto link = it.tie(connect(offer), it.gateway);
  CHECK_THROWS_AS(connect(offer), transport::path_error);
  offer.set_token(transport::random_token());
  CHECK_THROWS_AS(connect(offer), transport::path_error);
  CHECK(is_seeded(push(it, link, 1).weights, 1));
}

TEST_CASE("when the server dies all open requests are told") {
  auto kind = any_far_path();
  rig it{kind, {f32, 1000}};
  it.log->holds = true;
  auto link = it.connect();
  pusher all{it, link};
  all.push(1);
  all.push(2);
  CHECK(eventually([&] {
    std::lock_guard guard{it.log->mutex};
    return it.log->open.size() == 2;
  }));
  caf::anon_send_exit(it.server(), caf::exit_reason::kill);
  REQUIRE(all.wait(2));
  for (const auto& [number, done] : all.take_outcomes())
    CHECK(done.lost());
}
