// What a cluster is asked before its parameter server exists, and what follows
// from the answers.

#include "actors/admission/bfloat16_survey.hpp"
#include "messages/proto/hello.pb.h"
#include "messages/protocol.hpp"
#include "messages/run_record.hpp"
#include "tests/support/actor_fixture.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;
using namespace troupe::test;
using config::autocast_kind;

namespace {

using moment = bfloat16_answers::clock::time_point;
using std::chrono::seconds;

struct survey_fixture {
  survey_fixture() {
    config::run_description run;
    run.run_id = "undecided";
    uut = actors.make<admission_actor, bfloat16_survey_state>(
      bfloat16_survey_parts{run, answers});
  }

  proto::Welcome hello(const std::string& role, const std::string& name,
                       std::optional<double> gain = {},
                       uint32_t protocol = protocol_version) {
    proto::Hello out;
    out.set_protocol(protocol);
    out.set_role(role);
    out.set_name(name);
    if (gain)
      out.set_bfloat16_gain(*gain);
    return say(out.SerializeAsString());
  }

  proto::Welcome say(const std::string& bytes) {
    auto answer = actors.ask<std::string, caf::strong_actor_ptr>(uut, bytes);
    actors.run();
    CHECK_FALSE(answer->get<caf::strong_actor_ptr>());
    proto::Welcome out;
    REQUIRE(out.ParseFromString(answer->get<std::string>()));
    CHECK(out.later());
    CHECK_FALSE(out.accepted());
    return out;
  }

  actor_fixture actors;
  std::shared_ptr<bfloat16_answers> answers =
    std::make_shared<bfloat16_answers>();
  admission_actor uut;
};

} // namespace

TEST_CASE("bfloat16 is taken where it helps each worker", "[survey]") {
  CHECK(autocast_for({1.4, 1.06}) == autocast_kind::bf16);
  CHECK(autocast_for({least_bfloat16_gain}) == autocast_kind::bf16);
  CHECK(autocast_for({1.4, 1.04}) == autocast_kind::none);
  CHECK(autocast_for({1.4, 0}) == autocast_kind::none);
  CHECK(autocast_for({}) == autocast_kind::none);
}

TEST_CASE("the answers of a survey are one for each worker", "[survey]") {
  bfloat16_answers uut;
  CHECK(uut.age(moment{seconds{9}}) == 0);
  uut.heard("a", {}, moment{seconds{10}});
  CHECK(uut.gains().empty());
  uut.heard("b", 1.5, moment{seconds{11}});
  uut.heard("a", 0.9, moment{seconds{12}});
  uut.heard("b", 1.5, moment{seconds{13}});
  CHECK(uut.gains() == std::vector{0.9, 1.5});
  CHECK(uut.age(moment{seconds{14}}) == 4);
}

TEST_CASE("a survey tells workers to measure, and all to come again",
          "[survey]") {
  survey_fixture f;
  auto first = f.hello("worker", "a");
  CHECK(first.measure());
  CHECK(description_of(first).run_id == "undecided");
  CHECK(f.answers->gains().empty());
  CHECK_FALSE(f.hello("evaluator", "b").measure());
  CHECK_FALSE(f.hello("ps", "c").measure());
  CHECK_FALSE(f.hello("worker", "a", 1.2).measure());
  CHECK(f.answers->gains() == std::vector{1.2});
}

TEST_CASE("a survey asks nobody whom it does not understand", "[survey]") {
  survey_fixture f;
  CHECK_FALSE(f.say("\xff\xff\xff").measure());
  CHECK_FALSE(f.hello("worker", "old", 1.2, protocol_version + 1).measure());
  CHECK(f.answers->gains().empty());
}
