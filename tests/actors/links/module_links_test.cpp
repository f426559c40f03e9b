// How calls to remote modules get across: as frames, and through the server's
// end of a link.

#include "actors/links/framed_gateway.hpp"
#include "actors/links/joined_link.hpp"
#include "actors/links/module_frames.hpp"
#include "config/text/failure.hpp"
#include "tests/support/module_site.hpp"
#include "tests/support/payloads.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;
using namespace troupe::test;
using transport::frame;
using transport::frame_kind;

namespace {

/// Keeps the frames that the server's end sends.
struct kept_frames final : frame_channel {
  using frame_channel::send;

  void open(caf::actor_system&, const path_end_actor&) override {
    // nop
  }

  void send(frame message) override { sent.push_back(std::move(message)); }

  void close(const std::string&) override {
    // nop
  }

  std::vector<frame> sent;
};

/// The server's end of a worker's link, with frames by hand.
struct far_side {
  far_side() {
    gateway = make_gateway_stand_in(it.actors);
    framed_gateway_parts parts{it.server.handle, gateway, channel};
    parts.modules = [this] {
      ++made;
      return it.module;
    };
    end = it.actors.make<path_end_actor, framed_gateway_state>(parts);
  }

  template <class Header>
  void say(frame_kind kind, uint64_t id, const Header& header,
           payload tensor = {}) {
    it.actors.tell(end, frame_atom_v,
                   frame_ptr{std::make_shared<const frame>(frame{
                     kind, transfer_id{id}, transport::write_header(header),
                     std::move(tensor)})});
  }

  /// The worker pulls, and opens a context.
  void open_context() {
    say(frame_kind::pull, 1, pull_header{});
    it.server->pulls.back().promise.deliver(release_header{},
                                            to_payload(it.flat));
    it.actors.run();
    auto [header, tensor] = to_frame(it.call(1));
    say(frame_kind::forward, 2, header, tensor);
  }

  module_site it{all_remote};
  gateway_actor gateway;
  std::shared_ptr<kept_frames> channel = std::make_shared<kept_frames>();
  int made = 0;
  path_end_actor end;
};

} // namespace

TEST_CASE("a peer's modules are made for its first pull, and answer it") {
  far_side on;
  on.say(frame_kind::watch, 9, watch_request{}); // As an evaluator does.
  CHECK(on.made == 0);
  on.open_context();
  CHECK(on.made == 1);
  REQUIRE(on.channel->sent.size() == 2);
  CHECK(on.channel->sent[0].kind == frame_kind::release);
  CHECK(on.channel->sent[0].tensor.shape().count == 0); // All is remote.
  CHECK(on.channel->sent[1].kind == frame_kind::passed);
  CHECK(on.channel->sent[1].tensor.shape().count == samples * classes);
  CHECK(on.it.roster->contexts() == 1);
  on.say(frame_kind::cancel, 0, lease_id{1});
  CHECK(on.it.roster->contexts() == 0);
}

TEST_CASE("modules end with the peer, and their contexts with them") {
  far_side on;
  on.open_context();
  CHECK(on.it.roster->contexts() == 1);
  on.it.actors.kill(on.gateway);
  CHECK_FALSE(on.it.actors.alive(on.end));
  CHECK_FALSE(on.it.actors.alive(on.it.module));
  CHECK(on.it.roster->contexts() == 0);
  CHECK(on.it.roster->size() == 0);
}

TEST_CASE("a link ends with modules that fail, not with those of a server that "
          "has finished") {
  far_side on;
  on.open_context();
  SECTION("that fail") {
    on.it.actors.kill(on.it.module);
    CHECK_FALSE(on.it.actors.alive(on.end));
  }
  SECTION("of a server that has finished") {
    caf::anon_send_exit(on.it.module, caf::exit_reason::user_shutdown);
    on.it.actors.run();
    CHECK(on.it.actors.alive(on.end));
  }
}

TEST_CASE("a peer that calls modules before it pulls is cut off") {
  far_side on;
  auto [header, tensor] = to_frame(on.it.call(1));
  on.say(frame_kind::forward, 2, header, tensor);
  CHECK_FALSE(on.it.actors.alive(on.end));
}

TEST_CASE("a peer reads the weights of its context, and its gradient when that "
          "is complete") {
  far_side on;
  on.open_context();
  auto read = [&on](uint64_t id, const context_part& place) {
    on.say(frame_kind::read, id, place);
    return on.channel->sent.back();
  };
  auto weights = read(3, {lease_id{1}, 0, false, 10, 20});
  CHECK(weights.kind == frame_kind::passed);
  CHECK(at::equal(to_tensor(weights.tensor), on.it.flat.narrow(0, 10, 20)));
  CHECK(read(4, {lease_id{1}, 0, true, 0, 1}).kind == frame_kind::refusal);
  auto call = on.it.call(1);
  call.inputs = to_activations(at::ones({samples, classes}));
  auto [header, tensor] = to_frame(call);
  on.say(frame_kind::backward, 5, header, tensor);
  auto gradient = read(6, {lease_id{1}, 0, true, 10, 20});
  CHECK(gradient.kind == frame_kind::passed);
  CHECK(gradient.tensor.shape().count == 20);
  // A read of more elements than there are, of more than are sent at a time, or
  // at a place that does not exist.
  auto all = on.it.plan.parameters;
  auto most = on.it.plan.most_activations;
  for (const auto& [first, count] : {std::pair{all - 5, uint64_t{6}},
                                     {uint64_t{0}, most + 1},
                                     {UINT64_MAX, uint64_t{2}}})
    CHECK(read(7, {lease_id{1}, 0, true, first, count}).kind ==
          frame_kind::refusal);
  auto other = read(8, {lease_id{2}, 0, true, 0, 1});
  CHECK(
    transport::read_header<transport::passed_header>(other.header).cancelled);
}

TEST_CASE("with shards in several processes a call goes to the one that it "
          "names") {
  actor_fixture actors;
  std::array<std::vector<std::string>, 3> heard;
  std::vector<caf::typed_response_promise<release_header, payload>> pulls;
  joined_link_parts parts;
  for (auto& its : heard) {
    auto shard = actors.stand_in<readable_module_actor>([&](auto* self) {
      using weights = caf::result<release_header, payload>;
      return readable_module_actor::behavior_type{
        [](push_atom, const push_header&, const payload&) -> weights {
          return caf::make_error(errc::failed);
        },
        [&pulls, self](pull_atom, const pull_header&) -> weights {
          pulls.push_back(
            self->template make_response_promise<release_header, payload>());
          return pulls.back();
        },
        [](watch_atom,
           const watch_request&) -> caf::result<watch_header, payload> {
          return caf::make_error(errc::failed);
        },
        [](score_atom, const score&) {},
        [&its](forward_atom, const module_call&) {
          its.push_back("forward");
          return module_answer{};
        },
        [&its](backward_atom, const module_call&) {
          its.push_back("backward");
          return module_answer{};
        },
        [&its](cancel_atom, lease_id) { its.push_back("cancel"); },
        [&its](fetch_atom, const context_part&) {
          its.push_back("read");
          return module_answer{};
        },
      };
    });
    // Workers get only their own part of the weights, from the lead.
    parts.parts.push_back(
      {parameter_server_actor{shard}, parts.parts.size() == 2 ? 5u : 0u});
  }
  auto link =
    actors.make<readable_module_actor, joined_link_state>(std::move(parts));
  module_call call;
  call.server = 1;
  auto forward = actors.ask<module_answer>(link, forward_atom_v, call);
  call.server = 2;
  auto backward = actors.ask<module_answer>(link, backward_atom_v, call);
  call.server = 3;
  auto nowhere = actors.ask<module_answer>(link, forward_atom_v, call);
  auto read = actors.ask<module_answer>(link, fetch_atom_v, context_part{});
  actors.run();
  actors.tell(link, cancel_atom_v, lease_id{1});
  auto pull =
    actors.ask<release_header, payload>(link, pull_atom_v, pull_header{});
  actors.run();
  CHECK(nowhere->code() == errc::protocol_violation);
  CHECK((heard[0] == std::vector<std::string>{"forward", "cancel"}));
  CHECK((heard[1] == std::vector<std::string>{"backward", "cancel"}));
  CHECK((heard[2] == std::vector<std::string>{"read", "cancel"}));
  REQUIRE(pulls.size() == 3);
  auto own = random_payload(5, 1);
  payload_buffer nothing{{element_type::float32, 0}};
  auto none = std::move(nothing).seal();
  for (size_t k = 0; k < 3; ++k)
    pulls[k].deliver(release_header{version{4}, {}, {}}, k == 2 ? own : none);
  actors.run();
  CHECK(pull->get<payload>().host_bytes().data() == own.host_bytes().data());
  actors.kill(link);
}

TEST_CASE("calls and answers keep all that they have as frames") {
  for (uint64_t numbers : {0, 5})
    for (uint64_t statistics : {0, 3}) {
      module_call call;
      call.from = {lease_id{1}, 2, 3, 4, 5};
      call.weights = version{6};
      call.segment = 7;
      call.first = 8;
      call.last = false;
      call.scale = 1024;
      if (numbers > 0)
        call.inputs = {constant_payload(numbers, 1), {1, 5}, true};
      if (statistics > 0)
        call.statistics = constant_payload(statistics, 2);
      auto [header, tensor] = to_frame(call);
      CHECK(tensor.shape().count == numbers + statistics);
      auto back = to_call(header, tensor);
      CHECK(back.from == call.from);
      CHECK(back.weights == call.weights);
      CHECK(back.segment == 7);
      CHECK(back.first == 8);
      CHECK_FALSE(back.last);
      CHECK(back.scale == 1024);
      CHECK(back.inputs.sizes == call.inputs.sizes);
      CHECK(back.inputs.channels_last == call.inputs.channels_last);
      CHECK(same_bytes(back.inputs.numbers, call.inputs.numbers));
      CHECK(same_bytes(back.statistics, call.statistics));
      module_answer answer{true, call.inputs, call.statistics, 0.5, true};
      auto [outcome, what] = to_frame(answer);
      auto there = to_answer(outcome, what);
      CHECK(there.cancelled);
      CHECK(there.seconds == 0.5);
      CHECK(there.overflow);
      CHECK(same_bytes(there.outputs.numbers, answer.outputs.numbers));
      CHECK(same_bytes(there.statistics, answer.statistics));
      header.parts.statistics = numbers + statistics + 1;
      CHECK_THROWS_AS(to_call(header, tensor), transport::path_error);
    }
}

TEST_CASE("activations keep the numbers, and the memory where they can") {
  auto x = at::randn({2, 3, 4, 5});
  for (const auto& one : {x, x.contiguous(at::MemoryFormat::ChannelsLast),
                          at::randn({7}), at::randn({4, 6}).t()}) {
    auto there = to_activations(one);
    auto back = to_tensor(there);
    CHECK(at::equal(back, one));
    if (one.is_non_overlapping_and_dense() && one.dim() != 2) {
      CHECK(back.const_data_ptr() == one.const_data_ptr());
      CHECK(back.strides() == one.strides());
    }
  }
  CHECK_FALSE(to_tensor(to_activations({})).defined());
  auto wrong = to_activations(x);
  wrong.sizes = {2, 3, 4};
  CHECK_THROWS_AS(to_tensor(wrong), run_error);
}
