// What a peer knows of the others, and when it may lead them.

#include "apps/startup/known_nodes.hpp"
#include "apps/startup/next_life.hpp"
#include "config/run_folder/run_lock.hpp"
#include "config/text/failure.hpp"
#include "models/storage/lives.hpp"
#include "tests/support/error_line.hpp"
#include "tests/support/temporary_folder.hpp"

#include <catch2/catch_test_macros.hpp>

#include <fstream>

using namespace troupe;
using namespace troupe::app;
using namespace troupe::test;
using testing::temporary_folder;

namespace {

config::settings of_lead() {
  config::settings out;
  out.cluster.host = "10.0.0.1";
  out.cluster.port = 4000;
  out.cluster.insecure_network = true;
  return out;
}

/// Of the third life of a run of three nodes.
proto::Welcome welcome(const std::string& directory) {
  proto::Welcome out;
  out.mutable_description()->set_run_id("a1b2");
  out.mutable_description()->set_life(3);
  for (auto host : {"10.0.0.2", "10.0.0.3"}) {
    auto* shard = out.add_shards();
    shard->set_host(host);
    shard->set_port(5000);
  }
  out.set_run_directory(directory);
  return out;
}

} // namespace

TEST_CASE("a node that was let in knows who goes on without the lead") {
  known_nodes uut{of_lead(), {}};
  CHECK_FALSE(uut.without_lead("it is gone"));
  CHECK(uut.life().nodes == std::vector<config::address>{{"10.0.0.1", 4000}});
  uut.note(welcome("/data/run"), {"10.0.0.1", 4000}, worker_id{1});
  auto how = uut.without_lead("it is gone");
  REQUIRE(how);
  CHECK((how->next == std::vector{shard_id{1}, shard_id{2}}));
  CHECK(how->line == "rank 0 at 10.0.0.1:4000 is lost (it is gone); the nodes "
                     "that are left, 2, go on from the newest checkpoint");
  CHECK(uut.life().run_id == "a1b2");
  CHECK(uut.life().number == 3);
  CHECK(uut.life().directory == "/data/run");
  CHECK(uut.rank() == shard_id{1});
}

TEST_CASE("a node that hears of other nodes goes on with them") {
  known_nodes uut{of_lead(), {}};
  CHECK_FALSE(uut.address());
  uut.note(welcome("/data/run"), {"10.0.0.1", 4000}, worker_id{2});
  CHECK(uut.address() == config::address{"10.0.0.3", 5000});
  proto::Welcome run;
  for (auto host : {"10.0.0.2", "10.0.0.3"}) {
    auto* node = run.add_nodes();
    node->set_host(host);
    node->set_port(5000);
  }
  run.set_peers(3);
  auto how = uut.go_elsewhere(run);
  CHECK((how.next == std::vector{shard_id{0}, shard_id{1}, shard_id{2}}));
  CHECK(how.line ==
        "the run has other nodes by now, 3, led from 10.0.0.2:5000; "
        "this one goes on with them");
  CHECK(uut.rank() == shard_id{1});
  CHECK(uut.life().nodes.size() == 2);
  CHECK(uut.life().run_id == "a1b2");
}

TEST_CASE("a lead is known by what it advertises, and comes back where it has "
          "listened") {
  auto settings = of_lead();
  settings.what = config::role::ps;
  settings.cluster.rank = 0;
  known_nodes uut{settings, {}};
  uut.note_listening({"0.0.0.0", 4000}, {"203.0.113.1", 5000});
  CHECK(uut.bound() == config::address{"0.0.0.0", 4000});
  // Its own worker has reached it by another address.
  uut.note(welcome("/data/run"), {"10.0.0.1", 4000}, worker_id{0});
  CHECK(uut.life().nodes.front() == config::address{"203.0.113.1", 5000});
  CHECK(uut.life().nodes.size() == 3);
}

TEST_CASE("a node does not take part with others that it may not reach") {
  auto settings = of_lead();
  settings.cluster.insecure_network = false;
  known_nodes uut{settings, {}};
  CHECK(error_line<usage_error>([&] {
          uut.note(welcome("/data/run"), {"127.0.0.1", 4000}, worker_id{1});
        })
          .starts_with("10.0.0.2:5000, which the lead shard at 127.0.0.1:4000 "
                       "names, is no loopback address"));
  CHECK(uut.others().empty());
  proto::Welcome run;
  run.add_nodes()->set_host("10.0.0.2");
  CHECK(error_line<usage_error>([&] {
          uut.go_elsewhere(run);
        }).starts_with("10.0.0.2:0, "));
  settings.cluster.tls_dir = "certificates";
  known_nodes with_tls{settings, {}};
  CHECK_NOTHROW(
    with_tls.note(welcome("/data/run"), {"127.0.0.1", 4000}, worker_id{1}));
}

TEST_CASE("a node that joined knows the lead that has let it in") {
  known_nodes uut{of_lead(), {}};
  CHECK_FALSE(uut.rank());
  uut.note(welcome("/data/run"), {"10.0.0.9", 4000}, worker_id{5});
  CHECK(uut.life().nodes.front().host == "10.0.0.9");
  CHECK(uut.rank() == shard_id{5});
}

TEST_CASE("nodes of which none goes on without another wait for the lead") {
  known_nodes uut{of_lead(), {}};
  uut.note(welcome(""), {"10.0.0.1", 4000}, worker_id{1});
  CHECK_FALSE(uut.without_lead("it is gone"));
}

TEST_CASE("a node whose next lead does not come knows who leads after it") {
  config::next_life before;
  before.peers = 2;
  before.before.nodes = {{"10.0.0.2", 5000}, {"10.0.0.3", 5000}};
  known_nodes uut{of_lead(), before};
  CHECK((uut.without_lead("")->next == std::vector{shard_id{1}}));
  CHECK((uut.others() == std::vector{before.before.nodes[1]}));
  // Two more have joined, whose addresses are not known yet.
  before.peers = 4;
  CHECK(known_nodes{of_lead(), before}.without_lead("")->next.size() == 3);
  // The last one has nobody to go on with.
  before.before.nodes.resize(1);
  CHECK_FALSE(known_nodes{of_lead(), before}.without_lead(""));
}

TEST_CASE("a node leads only a run whose lock it sees") {
  temporary_folder folder;
  auto first = config::run_lock::acquire(folder.path());
  known_nodes uut{of_lead(), {}};
  uut.note(welcome(folder.path().string()), {"10.0.0.1", 4000}, worker_id{1});
  CHECK(uut.without_lead("it is gone")->next.size() == 2);
  CHECK(uut.life().directory == folder.path());
  CHECK(uut.holder_of_lock()->starts_with("process "));
  first.reset();
  CHECK_FALSE(uut.holder_of_lock());
  // Where a lock that is held looks free, others may lead at the same time.
  uut.note(welcome(folder.path().string()), {"10.0.0.1", 4000}, worker_id{1});
  auto how = uut.without_lead("it is gone");
  CHECK(how->next.empty());
  CHECK(how->status == 1);
  CHECK(how->line.find("is lost (it is gone), and this node cannot lead the "
                       "run: it does not see that rank 0 holds the lock of " +
                       folder.path().string()) != std::string::npos);
  CHECK(uut.life().directory.empty());
  CHECK_FALSE(uut.holder_of_lock());
  // The next node may see that the lock is held.
  uut.note(welcome(folder.path().string()), {"10.0.0.1", 4000}, worker_id{2});
  CHECK(uut.without_lead("it is gone")->next.size() == 2);
}

TEST_CASE("whoever leads since has the lock, and not the lead that was lost") {
  temporary_folder folder;
  auto first = config::run_lock::acquire(folder.path());
  known_nodes uut{of_lead(), {}};
  uut.note(welcome(folder.path().string()), {"10.0.0.1", 4000}, worker_id{1});
  CHECK(uut.holder_of_lock());
  std::ofstream{folder.path() / "run.lock"} << "process 1 on another-host\n";
  CHECK_FALSE(uut.holder_of_lock());
}

TEST_CASE("a node that cannot lead in one life cannot in the next") {
  config::next_life before;
  before.rank = 1;
  before.peers = 2;
  before.before.run_id = "a1b2";
  before.before.nodes = {{"10.0.0.2", 5000}, {"10.0.0.3", 5000}};
  auto settings = of_lead();
  settings.what = config::role::ps;
  settings.cluster.rank = 1;
  CHECK(known_nodes(settings, before).without_lead("")->next.empty());
}

TEST_CASE("only a node that has the run leads its next life") {
  temporary_folder folder;
  config::next_life next;
  next.peers = 2;
  next.before.run_id = "a1b2";
  next.before.number = 3;
  next.before.directory = folder.path() / "run";
  auto said = [&] {
    return error_line<run_error>([&] { require_run_is_here(next); });
  };
  require_run_is_here({});
  CHECK(said().find("run: no such run here: rank 0 of the run is lost") !=
        std::string::npos);
  CHECK_FALSE(exists(next.before.directory));
  create_directory(next.before.directory);
  std::ofstream{next.before.directory / "config.ini"} << "x";
  models::note_life(next.before.directory, 2);
  CHECK(said().find("run: is of another run: ") != std::string::npos);
  models::note_life(next.before.directory, 3);
  require_run_is_here(next);
  models::note_life(next.before.directory,
                    4); // By a lead that did not come far.
  require_run_is_here(next);
  require_same_run(next, "a1b2");
  CHECK_THROWS_AS(require_same_run(next, "c3d4"), run_error);
  next.rank = 1;
  next.before.directory = "/no/such";
  require_run_is_here(next);
}
