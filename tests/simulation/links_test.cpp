#include "apps/lab/simulation/simulated_link.hpp"
#include "tests/support/actor_fixture.hpp"
#include "tests/support/payloads.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;
using namespace troupe::test;

namespace {

using weights_answer = answer_ptr<release_header, payload>;

/// A server that answers every push and pull at once with 1000 bytes.
struct far_server {
  explicit far_server(const link_terms& terms) {
    auto count = arrived;
    server = actors.stand_in<parameter_server_actor>([count](auto*) {
      auto answer = [count] {
        ++*count;
        return caf::result<release_header, payload>{release_header{},
                                                    constant_payload(250, 1)};
      };
      return parameter_server_actor::behavior_type{
        [=](push_atom, const push_header&, const payload&) { return answer(); },
        [=](pull_atom, const pull_header&) { return answer(); },
        [](watch_atom,
           const watch_request&) -> caf::result<watch_header, payload> {
          return caf::make_error(errc::shutting_down);
        },
        [count](score_atom, const score&) { ++*count; },
      };
    });
    link = spawn_simulated_link(actors.system(),
                                {caf::actor_cast<lead_actor>(server), {}},
                                worker_actor{}, terms)
             .link;
  }

  weights_answer push() {
    auto out = actors.ask<release_header, payload>(
      link, push_atom_v, push_header{}, constant_payload(500, 1));
    actors.run();
    return out;
  }

  actor_fixture actors;
  std::shared_ptr<int> arrived = std::make_shared<int>(0);
  parameter_server_actor server;
  parameter_server_actor link;
};

} // namespace

TEST_CASE("a message takes its bytes over the rate and the latency") {
  far_server far{{0.5, 1000}};
  auto answer = far.push(); // 2000 bytes up, 1000 down.
  far.actors.advance(2.45);
  CHECK(*far.arrived == 0);
  far.actors.advance(0.1);
  CHECK(*far.arrived == 1);
  CHECK(answer->open());
  far.actors.advance(1.4);
  CHECK(answer->open());
  far.actors.advance(0.2);
  CHECK(answer->values.has_value());
}

TEST_CASE("messages queue behind each other, each way by itself") {
  far_server far{{0, 1000}};
  far.push();
  auto second = far.push();
  far.actors.advance(3.9);
  CHECK(*far.arrived == 1);
  far.actors.advance(0.15);
  CHECK(*far.arrived == 2);
  far.actors.advance(1.1);
  CHECK(second->values.has_value());
}

TEST_CASE("a link passes errors on and ends with its server") {
  far_server far{{0.1}};
  auto watched = far.actors.ask<watch_header, payload>(
    far.link, watch_atom_v, watch_request{version{0}});
  far.actors.run();
  far.actors.advance(0.3);
  CHECK(watched->code() == errc::shutting_down);
  far.actors.kill(far.server);
  CHECK_FALSE(far.actors.alive(far.link));
}
