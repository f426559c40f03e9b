// The shard registrar: which messages of which shards it accepts.

#include "actors/shards/shard_registrar.hpp"
#include "config/text/failure.hpp"
#include "tests/support/doubles.hpp"
#include "tests/support/payloads.hpp"
#include "tests/support/slot_drafts.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>
#include <catch2/catch_test_macros.hpp>

using namespace troupe;
using namespace troupe::test;

namespace {

/// Has said nothing yet, and keeps what it is told.
struct shard_notes {
  uint64_t credit = 0;
  bool silent = false;
  std::optional<run_end> end;
};

using shard_stand_in = stand_in<shard_notes, remote_shard_actor>;

shard_stand_in make_shard(actor_fixture& actors) {
  shard_stand_in out;
  auto seen = out.seen;
  using weights = caf::result<release_header, payload>;
  out.handle = actors.stand_in<remote_shard_actor>([seen](auto* self) {
    auto no = [] {
      return caf::make_error(errc::failed);
    };
    return remote_shard_actor::behavior_type{
      [no](push_atom, const push_header&, const payload&) -> weights {
        return no();
      },
      [no](pull_atom, const pull_header&) -> weights { return no(); },
      [no](watch_atom, const watch_request&)
        -> caf::result<watch_header, payload> { return no(); },
      [](score_atom, const score&) {},
      [](begin_atom, const caf::strong_actor_ptr&, transfer_id,
         const shard_state&, const payload_shape&) {},
      [](chunk_atom, const chunk&) {},
      [seen](credit_atom, transfer_id, uint64_t received) {
        seen->credit = received;
      },
      [](refuse_atom, const std::vector<push_id>&) {},
      [](norm_atom, const shard_step&) { return shard_squares{}; },
      [](measure_atom, const shard_step&) { return shard_measures{}; },
      [](sum_atom, const shard_step&) {},
      [](order_atom, const shard_step&) {},
      [](release_atom, const request_id&, const release_header&) {},
      [](leave_atom, worker_id, life_number) {},
      [](state_atom, transfer_id, const state_request&) {},
      [seen, self](ping_atom) -> caf::result<void> {
        if (seen->silent)
          return self->template make_response_promise<void>();
        return caf::unit;
      },
      [](ending_atom) {},
      [seen](stop_atom, const run_end& how) { seen->end = how; },
    };
  });
  return out;
}

constexpr shard_id first{1};
constexpr shard_id second{2};
constexpr transfer_id wanted{7};

/// A registrar of two shards of 10 and 5 elements behind each other, whose
/// state is the weights and one slot; the lead has the last 3.
struct registry_office {
  /// @param goes_on As in `shard_registrar_parts`.
  explicit registry_office(bool goes_on = false, double patience = 0,
                           double liveness = 0) {
    auto made = [this](shard_id rank) {
      if (!readable)
        throw run_error("optimizer.safetensors: it is gone");
      return shard_beginning{{}, constant_payload(rank == first ? 20 : 10, 0)};
    };
    registrar = actors.make<shard_registrar_actor, shard_registrar_state>(
      shard_registrar_parts{lead.handle,
                            {{{0, 10}, {10, 5}}, made},
                            roster,
                            liveness,
                            goes_on,
                            patience});
  }

  void enter(shard_id rank, const shard_stand_in& who) {
    actors.tell(registrar, register_atom_v, rank, std::string{"localhost"},
                uint16_t{1}, who.handle);
  }

  template <class... Ts>
  void say(const shard_stand_in& who, const Ts&... what) {
    caf::send_as(who.handle, registrar, what...);
    actors.run();
  }

  /// Both are there, and a checkpoint is wanted of them.
  void open() {
    auto what = std::make_shared<shard_fetch>();
    what->files = state.files;
    what->places = state.places;
    open(what);
  }

  /// The same with the weights of a version.
  void open_in_memory() {
    auto what = std::make_shared<shard_fetch>();
    what->weights = weights;
    open(what);
  }

  void open(const std::shared_ptr<shard_fetch>& fetch) {
    for (auto rank : {first, second}) {
      enter(rank, of(rank));
      say(of(rank), begun_atom_v, rank);
    }
    REQUIRE(roster->all());
    fetch->transfer = wanted;
    fetched = actors.ask<>(registrar, state_atom_v, shard_fetch_ptr{fetch});
    actors.run();
  }

  /// So many bytes of a shard's state, all of them `x`.
  void send(const shard_stand_in& from, shard_id as, uint64_t offset,
            uint64_t bytes, uint8_t x = 1) {
    chunk piece;
    piece.transfer = wanted;
    piece.offset = offset;
    piece.size = bytes;
    piece.received =
      std::make_shared<std::byte[]>(bytes, static_cast<std::byte>(x));
    say(from, chunk_atom_v, as, piece);
  }

  const shard_stand_in& of(shard_id rank) const {
    return rank == first ? one : two;
  }

  actor_fixture actors;
  lead_stand_in lead = make_lead_stand_in(actors);
  std::shared_ptr<shard_roster> roster = std::make_shared<shard_roster>();
  shard_registrar_actor registrar;
  shard_stand_in one = make_shard(actors);
  shard_stand_in two = make_shard(actors);
  at::Tensor weights = at::zeros({18});
  slot_draft state{18};
  answer_ptr<> fetched;
  bool readable = true; ///< The states of the shards.
};

} // namespace

TEST_CASE("a version is whole when each shard has sent all of its own") {
  registry_office it;
  it.open();
  it.send(it.one, first, 0, 30);
  CHECK(it.one->credit == 30);
  it.send(it.two, second, 0, 40);
  CHECK(it.fetched->open());
  it.send(it.one, first, 30, 50);
  CHECK(it.fetched->values);
  CHECK(it.lead->refused.empty());
  // And nothing else has been written to.
  for (const auto& flat : {it.state.weights(), it.state.numbers()}) {
    CHECK((flat.narrow(0, 0, 15) != 0).all().item<bool>());
    CHECK((flat.narrow(0, 15, 3) == 0).all().item<bool>());
  }
}

TEST_CASE("a piece of a version that does not follow the one before loses the "
          "shard") {
  registry_office it;
  it.open();
  it.send(it.one, first, 0, 16);
  SECTION("it comes again") {
    it.send(it.one, first, 0, 16);
  }
  SECTION("one is left out") {
    it.send(it.one, first, 32, 16);
  }
  SECTION("it reaches past the end") {
    it.send(it.one, first, 16, 80);
  }
  SECTION("its end is beyond all numbers") {
    it.send(it.one, first, UINT64_MAX - 7, 16);
  }
  SECTION("there is nothing in it") {
    it.send(it.one, first, 16, 0);
  }
  REQUIRE(it.lead->refused.size() == 1);
  CHECK(it.lead->refused[0].starts_with(
    "parameter server shard 1 at localhost:1 is "
    "lost (a piece is out of place)"));
  CHECK(it.fetched->open());
  CHECK(it.one->credit == 16);
}

TEST_CASE("a shard that has written its state to the files sends nothing") {
  registry_office it;
  it.open();
  auto writes = [&](const shard_stand_in& who, const std::string& trouble) {
    it.say(who, write_atom_v, first, wanted, trouble);
  };
  writes(it.two, ""); // In another's name.
  it.send(it.two, second, 0, 40);
  CHECK(it.fetched->open());
  SECTION("it is durable") {
    writes(it.one, "");
    CHECK(it.fetched->values);
  }
  SECTION("it cannot be made durable") {
    writes(it.one, "cannot sync: Input/output error");
    CHECK(it.fetched->code() == errc::disk);
  }
  CHECK(it.lead->refused.empty());
}

TEST_CASE("a state that comes twice loses the shard") {
  registry_office it;
  it.open();
  SECTION("in chunks, then in the files") {
    it.send(it.one, first, 0, 4);
    it.say(it.one, write_atom_v, first, wanted, std::string{});
  }
  SECTION("in the files, then in chunks") {
    it.say(it.one, write_atom_v, first, wanted, std::string{});
    it.send(it.one, first, 0, 4);
  }
  SECTION("in the files, twice") {
    for (int i = 0; i < 2; ++i)
      it.say(it.one, write_atom_v, first, wanted, std::string{});
  }
  CHECK(it.lead->refused.size() == 1);
  CHECK(it.fetched->open());
}

TEST_CASE("weights that are not for a checkpoint come into memory") {
  registry_office it;
  it.open_in_memory();
  it.send(it.one, first, 0, 40);
  it.send(it.two, second, 0, 20);
  CHECK(it.fetched->values);
  CHECK((it.weights.narrow(0, 0, 15) != 0).all().item<bool>());
  CHECK((it.weights.narrow(0, 15, 3) == 0).all().item<bool>());
  it.say(it.one, write_atom_v, first, wanted, std::string{}); // It is over.
  CHECK(it.lead->refused.empty());
}

TEST_CASE("what is sent in another shard's name is not taken") {
  registry_office it;
  it.open();
  it.send(it.two, first, 0, 16);
  it.send(make_shard(it.actors), first, 0, 16);
  CHECK(it.one->credit == 0);
  CHECK(it.two->credit == 0);
  CHECK(it.lead->refused.empty());
  it.send(it.one, first, 0, 80);
  it.send(it.two, second, 0, 40);
  CHECK(it.fetched->values);
}

TEST_CASE("what a lost shard says does not count for the one that takes its "
          "rank") {
  registry_office it;
  it.enter(first, it.one);
  it.enter(second, it.two);
  it.say(it.two, begun_atom_v, second);
  // Impossible: so much has not been sent.
  it.say(it.one, credit_atom_v, first, transfer_id{1}, uint64_t{1} << 40);
  CHECK(it.roster->missing() == "parameter server shard 1");
  auto next = make_shard(it.actors);
  it.enter(first, next);
  it.say(it.one, begun_atom_v, first);
  CHECK_FALSE(it.roster->all());
  it.say(next, begun_atom_v, first);
  CHECK(it.roster->all());
}

TEST_CASE("shards are told where all are, once all are ready") {
  registry_office it;
  auto ask = [&] {
    auto out =
      it.actors.ask<std::vector<config::address>>(it.registrar, shards_atom_v);
    it.actors.run();
    return out;
  };
  it.enter(first, it.one);
  it.say(it.one, begun_atom_v, first);
  auto early = ask();
  it.enter(second, it.two);
  CHECK(early->open());
  it.say(it.two, begun_atom_v, second);
  const std::vector<config::address> both{{"localhost", 1}, {"localhost", 1}};
  for (const auto& answer : {early, ask()}) {
    REQUIRE(answer->values);
    CHECK((answer->get<std::vector<config::address>>() == both));
  }
}

TEST_CASE("a state that cannot be read fails the run, with the reason") {
  registry_office it;
  it.enter(first, it.one);
  it.readable = false;
  it.enter(second, it.two);
  CHECK((it.lead->refused ==
         std::vector<std::string>{"optimizer.safetensors: it is gone"}));
  CHECK(it.actors.alive(it.registrar));
}

TEST_CASE("who comes when a shard is lost is told so") {
  registry_office it{true};
  it.open();
  it.send(it.one, first, 16, 16); // Out of place: it is lost.
  auto answer = it.actors.ask<>(it.registrar, register_atom_v, first,
                                std::string{"localhost"}, uint16_t{1},
                                make_shard(it.actors).handle);
  it.actors.run();
  CHECK(answer->code() == errc::shutting_down);
}

TEST_CASE("a shard that workers may not be sent to does not come in") {
  registry_office it;
  auto answer =
    it.actors.ask<>(it.registrar, register_atom_v, first,
                    std::string{"10.9.9.9"}, uint16_t{1}, it.one.handle);
  it.actors.run();
  CHECK(answer->code() == errc::settings_conflict);
  CHECK(
    text_of(*answer->error)
      .starts_with(
        "10.9.9.9:1, which parameter server shard 1 names, is no loopback"));
  it.enter(first, it.one); // From an address of this machine.
  CHECK(it.roster->missing() == "parameter server shards 1, 2");
}

TEST_CASE("nodes that go on without a lost one hear of it before the registrar "
          "ends") {
  registry_office it{true};
  it.open();
  it.send(it.one, first, 16, 16); // Out of place: it is lost.
  CHECK(it.lead->ended.empty());  // Others may be lost at the same time.
  it.actors.advance(1);
  REQUIRE(it.lead->ended.size() == 1);
  CHECK(it.lead->refused.empty());
  auto end = it.lead->ended[0];
  CHECK(end.status == 1);
  CHECK((end.next == std::vector{shard_id{0}, second}));
  CHECK(end.line == "parameter server shard 1 at localhost:1 is lost (a piece "
                    "is out of place)");
  it.actors.tell(it.registrar, stop_atom_v, end);
  REQUIRE(it.two->end);
  CHECK((it.two->end->next == end.next));
  CHECK_FALSE(it.one->end);
  CHECK(it.actors.alive(it.registrar));
  SECTION("when they have left") {
    caf::anon_send_exit(it.two.handle, caf::exit_reason::user_shutdown);
    it.actors.run();
  }
  SECTION("or after a while") {
    it.actors.advance(3);
  }
  CHECK_FALSE(it.actors.alive(it.registrar));
}

TEST_CASE("nodes that are lost at the same time are left out together") {
  registry_office it{true};
  it.open();
  it.send(it.one, first, 16, 16);
  it.send(it.two, second, 16, 16);
  it.actors.advance(1);
  REQUIRE(it.lead->ended.size() == 1);
  CHECK((it.lead->ended[0].next == std::vector{shard_id{0}}));
}

TEST_CASE("a registrar that stood still takes no lost connection for a death") {
  for (auto goes_on : {true, false}) {
    registry_office it{goes_on, 0, 8};
    it.open();
    it.actors.advance(20);
    it.actors.oversleep(30);
    CHECK(it.lead->ended.empty());
    CHECK(it.lead->refused.empty());
    it.actors.kill(it.one.handle);
    it.actors.advance(1);
    CHECK(it.lead->refused.empty());
    REQUIRE(it.lead->ended.size() == 1);
    using shards = std::vector<shard_id>;
    CHECK(
      (it.lead->ended[0].next ==
       (goes_on ? shards{shard_id{0}, first, second} : shards{shard_id{0}})));
  }
}

TEST_CASE("a shard that is silent is lost") {
  registry_office it{false, 0, 8};
  it.open();
  it.actors.advance(20);
  CHECK(it.lead->refused.empty());
  it.one->silent = true;
  it.actors.advance(6);
  CHECK(it.lead->refused.empty());
  it.actors.advance(8);
  REQUIRE(it.lead->refused.size() == 1);
  CHECK(it.lead->refused[0].find("shard 1 at localhost:1 is lost (it does not "
                                 "answer)") != std::string::npos);
}

TEST_CASE(
  "who is missing in the next life is waited for while a state arrives") {
  registry_office it{true, 5};
  it.enter(first, it.one);
  auto has_got = [&](uint64_t bytes) {
    it.say(it.one, credit_atom_v, first, transfer_id{first.value}, bytes);
  };
  it.actors.advance(4);
  has_got(40);
  it.actors.advance(4);
  CHECK(it.lead->ended.empty());
  has_got(40); // It goes on no more.
  it.actors.advance(2);
  REQUIRE(it.lead->ended.size() == 1);
  CHECK((it.lead->ended[0].next == std::vector{shard_id{0}}));
}

TEST_CASE("who does not come to the next life is left out of the one after") {
  registry_office it{true, 5};
  it.enter(second, it.two);
  it.say(it.two, begun_atom_v, second);
  it.actors.advance(4);
  CHECK(it.lead->ended.empty());
  it.actors.advance(2);
  REQUIRE(it.lead->ended.size() == 1);
  CHECK((it.lead->ended[0].next == std::vector{shard_id{0}, second}));
  CHECK(it.lead->ended[0].line == "parameter server shard 1 did not come");
}

TEST_CASE("slots that cannot be written fail the version, not a shard") {
  registry_office it;
  it.state.places.slots.parts.front().count = 2;
  it.open();
  it.send(it.one, first, 0, 80);
  REQUIRE(it.fetched->error);
  CHECK(it.fetched->code() == errc::disk);
  CHECK(it.lead->refused.empty());
}
