// The real parameter server and coordinator behind every path, in real threads:
// a worker whose gradients are not finite, or far larger than those of others,
// is expelled after twenty of them, and the others train on without it.

#include "actors/admission/coordinator.hpp"
#include "actors/runtime/supervisor.hpp"
#include "actors/server/parameter_server.hpp"
#include "tests/support/payloads.hpp"
#include "tests/support/tiny_net.hpp"
#include "tests/transport/rig.hpp"

#include <future>
#include <limits>
#include <map>
#include <set>

using namespace troupe;
using namespace troupe::test;

namespace {

constexpr uint64_t samples = 95;
constexpr uint64_t epochs = 12;
constexpr uint32_t members = 3;
constexpr worker_id culprit{1};

/// What is wrong with the culprit's gradients.
struct flaw {
  float numbers;
  uint64_t sound; ///< Gradients before.
  errc refused;
  std::string outliers = "none";
};

/// Which samples are in the weights. Told by the server alone, one thing at a
/// time.
class sample_book : public event_subscriber {
public:
  void on_event(const event& entry) override {
    if (const auto* gone = std::get_if<inputs::left>(&entry.what))
      ++departures[gone->who];
    if (const auto* push = std::get_if<inputs::arrived>(&entry.what)) {
      if (push->refused != errc::none)
        ++refusals[push->header.id.worker];
      froms[push->header.id] = push->header.from;
    }
    for (const auto& step : entry.decided.updates)
      for (const auto& part : step.gradients)
        apply(part.id);
    for (const auto& next : entry.decided.release)
      for (const auto& one : next.leases)
        leases[one.id] = one;
  }

  void apply(const push_id& id) {
    auto found = leases.find(froms[id]);
    if (found == leases.end())
      ++strange;
    else
      for (uint64_t i = 0; i < found->second.count; ++i)
        twice +=
          !seen[found->second.epoch].insert(found->second.first + i).second;
    culprits += id.worker == culprit;
  }

  std::map<push_id, lease_id> froms;
  std::map<lease_id, lease> leases;
  std::map<uint64_t, std::set<uint64_t>> seen; ///< Samples, by epoch.
  uint64_t twice = 0;
  uint64_t strange = 0;
  uint64_t culprits = 0; ///< Gradients of the culprit.
  std::map<worker_id, int> refusals;
  std::map<worker_id, int> departures;
};

struct actors {
  std::shared_ptr<sample_book> book = std::make_shared<sample_book>();
  coordinator_actor coordinator;
  std::vector<caf::actor> others;
  std::promise<run_end> ended;
  std::shared_ptr<std::optional<recording::summary>> summary =
    std::make_shared<std::optional<recording::summary>>();
};

parameter_server_actor open_server(caf::actor_system& system, actors& all,
                                   const std::string& outliers) {
  auto recorder = system.spawn(
    [summary = all.summary](
      recorder_actor::pointer self) -> recorder_actor::behavior_type {
      return {
        [](note_atom, const note_ptr&) {},
        [summary, self](finish_atom, const note_ptr& entry) {
          *summary = std::get<notes::finished>(entry->what).summary;
          self->quit();
        },
      };
    });
  auto writer = system.spawn([](checkpoint_writer_actor::pointer)
                               -> checkpoint_writer_actor::behavior_type {
    return {[](write_atom, const snapshot_ptr&) {
      return std::string{};
    }};
  });
  parameter_server_parts parts;
  parts.settings.training.network = "tiny";
  parts.settings.training.batch_size = 10;
  parts.settings.training.epochs = epochs;
  parts.settings.training.outliers = outliers;
  parts.settings.cluster.workers = members;
  parts.description.life = 1;
  parts.data = {"none", samples, 10};
  parts.recorder = recorder;
  parts.writer = writer;
  parts.observer = all.book;
  auto lead = spawn<lead_actor, parameter_server_state>(
    system, placement::scheduled, std::move(parts));
  auto supervisor = spawn<supervisor_actor, supervisor_state>(
    system, placement::scheduled, supervisor_parts{[&all](const run_end& how) {
      all.ended.set_value(how);
    }});
  cores::membership_rules rules;
  rules.workers = members;
  all.coordinator = spawn<coordinator_actor, coordinator_state>(
    system, placement::scheduled,
    coordinator_parts{rules, 0, life_number{1}, lead, supervisor});
  for (const auto& one : {caf::actor_cast<caf::actor>(lead),
                          caf::actor_cast<caf::actor>(supervisor),
                          caf::actor_cast<caf::actor>(all.coordinator)})
    all.others.push_back(one);
  return lead;
}

/// A worker as the server's process sees it.
worker_actor make_handle(caf::actor_system& system,
                         std::shared_ptr<std::atomic<bool>> stopped) {
  return system.spawn(
    [stopped](worker_actor::pointer self) -> worker_actor::behavior_type {
      return {
        [](attach_atom, const parameter_server_actor&, const registration&,
           const gradient_way&) {},
        [](detach_atom) {},
        [](cancel_atom, version) {},
        [](write_atom, version, sequence) {},
        [](leave_atom) { return sequence{0}; },
        [](ping_atom) { return uint64_t{0}; },
        [](report_atom) { return std::string{}; },
        [stopped, self](stop_atom, const run_end&) {
          *stopped = true;
          self->quit();
        },
      };
    });
}

/// A worker, in a thread of its own; says which answers ended it.
class player {
public:
  player(rig& at, actors& with, worker_id who)
    : self_(at.system()), link_(at.connect()),
      handle_(make_handle(at.system(), stopped_)) {
    registration_request wish;
    wish.has_rank = true;
    wish.rank = who;
    self_
      ->request(with.coordinator, long_enough, register_atom_v, wish, handle_)
      .receive([this](const registration& as) { as_ = as; },
               [](const caf::error& why) { FAIL(caf::to_string(why)); });
  }

  /// Trains until the run is over for this worker.
  errc train(const flaw& its) {
    while (!*stopped_) {
      auto spoilt = as_.worker == culprit && last_.value >= its.sound;
      auto answer =
        leases_.empty() ? pull() : push(spoilt ? its.numbers : 0.01F);
      if (spoilt && answer == its.refused)
        answer = pull();
      if (answer != errc::none)
        return answer;
    }
    return errc::none;
  }

  bool stopped() const { return *stopped_; }

private:
  template <class... Ts>
  errc ask(const Ts&... what) {
    auto out = errc::none;
    self_->request(link_, long_enough, what...)
      .receive(
        [this](const release_header& header, const payload&) {
          reads_ = header.weights;
          leases_.insert(leases_.end(), header.leases.begin(),
                         header.leases.end());
        },
        [&](const caf::error& why) {
          out = why.category() == caf::type_id_v<errc>
                  ? static_cast<errc>(why.code())
                  : errc::failed;
        });
    return out;
  }

  errc pull() {
    requests_ = requests_.next();
    return ask(pull_atom_v, pull_header{as_.worker, as_.life, as_.server,
                                        lease_id{0}, requests_});
  }

  errc push(float x) {
    auto from = leases_.front();
    leases_.erase(leases_.begin());
    last_ = last_.next();
    requests_ = requests_.next();
    push_header header;
    header.id = {as_.worker, as_.life, last_};
    header.server = as_.server;
    header.computed_on = reads_;
    header.from = from.id;
    header.samples = from.count;
    header.loss = 1;
    header.request = requests_;
    return ask(push_atom_v, header, constant_payload(tiny_size, x));
  }

  caf::scoped_actor self_;
  parameter_server_actor link_;
  std::shared_ptr<std::atomic<bool>> stopped_ =
    std::make_shared<std::atomic<bool>>(false);
  worker_actor handle_;
  registration as_;
  version reads_;
  sequence last_{0}, requests_{0};
  std::vector<lease> leases_;
};

void check_expulsion(const std::string& kind, const flaw& its) {
  actors all;
  auto ended = all.ended.get_future();
  rig at{
    kind, {element_type::float32, tiny_size}, [&](caf::actor_system& system) {
      return open_server(system, all, its.outliers);
    }};
  std::vector<std::unique_ptr<player>> players;
  for (uint32_t i = 0; i < members; ++i)
    players.push_back(std::make_unique<player>(at, all, worker_id{i}));
  std::vector<std::future<errc>> runs;
  for (auto& one : players)
    runs.push_back(
      std::async(std::launch::async, [&] { return one->train(its); }));
  REQUIRE(ended.wait_for(long_enough) == std::future_status::ready);
  CHECK(ended.get().status == 0);
  for (auto& run : runs)
    run.get();
  const auto& book = *all.book;
  // It may send more of them before the coordinator makes it leave.
  REQUIRE(book.refusals.size() == 1);
  CHECK(book.refusals.begin()->first == culprit);
  CHECK(book.refusals.begin()->second >= 20);
  CHECK((book.departures == std::map<worker_id, int>{{culprit, 1}}));
  CHECK(book.culprits <= its.sound);
  CHECK(book.twice == 0);
  CHECK(book.strange == 0);
  uint64_t applied = 0;
  for (const auto& [epoch, which] : book.seen) {
    applied += which.size();
    if (epoch < epochs)
      CHECK(which.size() == samples);
  }
  REQUIRE(all.summary->has_value());
  CHECK((*all.summary)->samples_applied == applied);
  players.clear();
  for (const auto& one : all.others)
    caf::anon_send_exit(one, caf::exit_reason::kill);
}

} // namespace

TEST_CASE("twenty refusals expel the one who caused them, over every path") {
  for (const char* kind : {"inproc", "chunked", "stream", "shm"}) {
    INFO(kind);
    check_expulsion(
      kind, {std::numeric_limits<float>::quiet_NaN(), 0, errc::not_finite});
    check_expulsion(kind, {10, 4, errc::outlier, "refuse"});
  }
}
