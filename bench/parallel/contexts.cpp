// Measures the memory that remains of contexts which a trainer opens and
// abandons.

#include "actors/runtime/inline_execution.hpp"
#include "actors/runtime/spawning.hpp"
#include "actors/runtime/tensor_payload.hpp"
#include "actors/segments/activations.hpp"
#include "actors/segments/remote_module.hpp"
#include "bench/topics.hpp"
#include "config/text/failure.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/rand.h>
#include <caf/scoped_actor.hpp>
#include <unistd.h>

#include <fstream>
#include <memory>

namespace troupe::bench {

namespace {

double resident_mib() {
  std::ifstream in{"/proc/self/statm"};
  uint64_t all = 0;
  uint64_t resident = 0;
  in >> all >> resident;
  return static_cast<double>(resident) *
         static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

/// Gives the same weights to everybody.
parameter_server_actor::behavior_type serve(parameter_server_actor::pointer,
                                            const payload& weights) {
  return {
    [=](push_atom, const push_header&,
        const payload&) -> caf::result<release_header, payload> {
      return {release_header{}, weights};
    },
    [=](pull_atom, const pull_header&) -> caf::result<release_header, payload> {
      return {release_header{}, weights};
    },
    [](watch_atom, const watch_request&) -> caf::result<watch_header, payload> {
      return caf::make_error(errc::shutting_down);
    },
    [](score_atom, const score&) {},
  };
}

struct two_threads : caf::actor_system_config {
  two_threads() { allow_inline_execution(*this, 2); }
};

/// A remote module of LeNet and a trainer that opens contexts and cancels them.
class trainer {
public:
  trainer() : self_(system_) {
    computing_parts parts;
    models::compute_engine whole{parts.settings.training, classes};
    auto flat = at::empty({static_cast<int64_t>(whole.layout().count())});
    whole.initial_weights(flat, 1);
    server_ = system_.spawn(serve, to_payload(flat));
    remote_module_parts out;
    out.server = server_;
    out.segments = {spawn<stage_actor, stage_state>(
      system_, placement::detached, parts, classes, stage_place{})};
    out.range = {0, whole.layout().count()};
    out.most_samples = 8;
    out.roster = roster_;
    module_ = spawn<module_host_actor, remote_module_state>(
      system_, placement::scheduled, std::move(out));
    inputs_ = to_activations(at::rand({8, 1, 28, 28}));
    self_->request(module_, caf::infinite, pull_atom_v, pull_header{})
      .receive([](const release_header&, const payload&) {},
               [](const caf::error& why) { throw run_error(text_of(why)); });
  }

  ~trainer() {
    self_->send_exit(module_, caf::exit_reason::user_shutdown);
    self_->send_exit(server_, caf::exit_reason::user_shutdown);
  }

  trainer(const trainer&) = delete;
  trainer& operator=(const trainer&) = delete;

  void abandon(uint64_t contexts) {
    for (uint64_t i = 0; i < contexts; ++i) {
      module_call call;
      call.from = {lease_id{++leases_}, 0, 0, 8};
      call.inputs = inputs_;
      self_->request(module_, caf::infinite, forward_atom_v, call)
        .receive([](const module_answer&) {},
                 [](const caf::error& why) { throw run_error(text_of(why)); });
      self_->send(module_, cancel_atom_v, call.from.id);
    }
  }

  uint64_t open() const { return roster_->contexts(); }

private:
  static constexpr int64_t classes = 10;

  two_threads settings_;
  caf::actor_system system_{settings_};
  caf::scoped_actor self_;
  module_roster_ptr roster_ = std::make_shared<module_roster>();
  parameter_server_actor server_;
  module_host_actor module_;
  activations inputs_;
  uint64_t leases_ = 0;
};

} // namespace

void measure_contexts(const setting& how, report& out) {
  out.begin("resident memory after 10,000 contexts of LeNet that their trainer "
            "abandoned (target: as before)");
  init_messages();
  trainer it;
  uint64_t all = how.quick ? 20 : 10'000;
  it.abandon(all / 10);
  auto before = resident_mib();
  it.abandon(all);
  if (it.open() > 1)
    throw run_error("contexts stay open");
  out.add(compare("parallel/contexts/memory", resident_mib(), "MiB",
                  "after a tenth of them", before, better::lower));
}

} // namespace troupe::bench
