// A parameter server's memory over a long run.

#include "tests/support/server_fixture.hpp"

#include <catch2/catch_test_macros.hpp>
#include <unistd.h>

#include <atomic>
#include <deque>
#include <fstream>
#include <functional>

using namespace troupe;
using namespace troupe::test;

namespace {

constexpr uint32_t workers = 2;

/// The heap, and how many blocks were ever taken from it.
class counted_memory final : public payload_memory {
public:
  memory_block take_block(size_t bytes) override {
    ++taken;
    return heap_memory()->take_block(bytes);
  }

  std::atomic<uint64_t> taken = 0;
};

/// Bytes of this process in memory.
uint64_t resident() {
  std::ifstream in{"/proc/self/statm"};
  uint64_t size = 0;
  uint64_t pages = 0;
  in >> size >> pages;
  return pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

/// A worker that pushes one gradient after another until the run is over.
void push_for_ever(server_fixture& on, worker_id who, const payload& gradient) {
  struct state {
    sequence last{0};
    std::deque<lease> leases;
  };
  on.actors.system().spawn([&on, who, gradient](caf::event_based_actor* self) {
    auto own = std::make_shared<state>();
    auto next = std::make_shared<
      std::function<void(const release_header&, const payload&)>>();
    *next = [=, &on, weak = std::weak_ptr{next}](const release_header& header,
                                                 const payload&) {
      own->leases.insert(own->leases.end(), header.leases.begin(),
                         header.leases.end());
      own->last = own->last.next();
      push_header out;
      out.id = {who, life_number{1}, own->last};
      out.server = on.life;
      out.computed_on = header.weights;
      out.from = own->leases.front().id;
      out.samples = own->leases.front().count;
      own->leases.pop_front();
      auto again = weak.lock();
      self->request(on.lead, caf::infinite, push_atom_v, out, gradient)
        .then([again](const release_header& more,
                      const payload& weights) { (*again)(more, weights); },
              [](const caf::error&) {});
    };
    self
      ->request(on.lead, caf::infinite, pull_atom_v,
                pull_header{who, life_number{1}, on.life, lease_id{0}})
      .then([next](const release_header& header,
                   const payload& weights) { (*next)(header, weights); },
            [](const caf::error&) {});
  });
}

} // namespace

TEST_CASE("a parameter server does not grow over 100,000 steps") {
  constexpr uint64_t steps = 100'000;
  config::training_settings network;
  network.network = "resnet20";
  auto shape = shape_of_weights(network, 10);
  auto memory = std::make_shared<counted_memory>();
  server_fixture on;
  on.memory = memory;
  on.settings.training.network = network.network;
  on.settings.training.momentum = 0.9;
  on.settings.training.max_steps = steps;
  on.settings.policy.name = "async";
  on.settings.checkpoint.checkpoint_freq = 2 * steps;
  on.settings.evaluation.eval_freq = 2 * steps;
  on.settings.cluster.workers = workers;
  on.open_empty();
  uint64_t early = 0;
  uint64_t late = 0;
  on.recorder->on_note = [&](const note& entry) {
    if (entry.step == 1000 && early == 0)
      early = resident();
    if (entry.step == steps - 1000 && late == 0)
      late = resident();
  };
  std::vector<worker_id> who;
  for (uint32_t i = 0; i < workers; ++i) {
    on.enlist(worker_id{i}, life_number{1});
    who.push_back(worker_id{i});
    push_for_ever(on, worker_id{i}, constant_payload(shape.count, 1e-9f));
  }
  on.actors.tell(on.lead, join_atom_v, who);
  REQUIRE(on.summary().steps == steps);
  // The newest, the next, and what each worker still reads.
  CHECK(memory->taken <= 2 + workers);
  INFO(early << " and " << late << ", at the end " << resident() << " bytes");
  REQUIRE(early > 0);
  REQUIRE(late > 0);
  // The steps between leave nothing: half a model is 6 bytes a step. Measured
  // before the end, since the last checkpoint takes memory of its own.
  CHECK(late < early + shape.bytes() / 2);
  // The last checkpoint copies weights and momentum, and its file is made of
  // the copies in a buffer.
  CHECK(resident() < early + 4 * shape.bytes());
}
