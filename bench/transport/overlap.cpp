// Steps of a worker whose parameter server is behind a slow line, with tensors
// sent while they are computed and used, compared with whole tensors.

#include "actors/links/framed_gateway.hpp"
#include "actors/links/framed_link.hpp"
#include "actors/links/gateway.hpp"
#include "actors/links/path_channel.hpp"
#include "actors/runtime/run_clock.hpp"
#include "actors/runtime/spawning.hpp"
#include "actors/runtime/tensor_payload.hpp"
#include "bench/topics.hpp"
#include "bench/transport/links.hpp"
#include "bench/transport/loopback.hpp"
#include "config/text/failure.hpp"
#include "messages/transport/stream/stream_carrier.hpp"
#include "models/engine/compute.hpp"
#include "models/layout/flat_pool.hpp"

#include <ATen/Parallel.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>

#include <chrono>
#include <string>

namespace troupe::bench {

namespace {

using config::overlap_rule;

struct task {
  std::string network;
  std::vector<int64_t> inputs;
  std::string line;
  uint32_t bytes_per_second;
};

/// A worker and a parameter server with a line between them. The server
/// answers at once, always with the same weights.
class pair_on_a_line {
public:
  pair_on_a_line(const task& job, overlap_rule rule)
    : engine_(settings_of(job), 10),
      gradients_(engine_.layout().count(), engine_.layout().dtype()),
      inputs_(at::randn(job.inputs)),
      targets_(at::randint(10, {job.inputs.front()}, at::kLong)) {
    payload_shape shape{element_type::float32, engine_.layout().count()};
    auto server = keep(spawn_server(system_, shape.count, service::echo));
    auto nobody = keep(spawn_nobody(system_));
    auto gateway = keep(spawn<gateway_actor, gateway_state>(
      system_, placement::scheduled, gateway_parts{server, nobody, shape}));
    auto line = connect_loopback(job.bytes_per_second);
    transport::path_terms servers{shape};
    servers.first_sent = 4 * engine_.layout().parameter_count();
    keep(spawn<path_end_actor, framed_gateway_state>(
      system_, placement::scheduled,
      framed_gateway_parts{server, gateway,
                           make_path_channel(path_on(line.server, servers))}));
    transport::path_terms workers{shape};
    workers.overlap = rule;
    way_ = path_on(line.worker, workers);
    link_ = keep(spawn<framed_link_actor, framed_link_state>(
      system_, placement::scheduled, gateway, make_path_channel(way_), shape));
    exchange({}); // It gets its first weights.
  }

  ~pair_on_a_line() {
    for (const auto& who : all_)
      caf::anon_send_exit(who, caf::exit_reason::kill);
  }

  void run(uint64_t steps) {
    for (; steps > 0; --steps)
      exchange(gradient());
  }

private:
  static config::training_settings settings_of(const task& job) {
    config::training_settings out;
    out.network = job.network;
    return out;
  }

  static transport::path_ptr path_on(int fd,
                                     const transport::path_terms& terms) {
    return transport::make_path<transport::stream_carrier>(
      transport::socket{transport::descriptor{fd}}, terms);
  }

  template <class Handle>
  Handle keep(Handle who) {
    all_.push_back(caf::actor_cast<caf::actor>(who));
    return who;
  }

  payload gradient() {
    auto begun = std::chrono::steady_clock::now();
    auto out = gradients_.take_tensor();
    models::batch_context about;
    if (auto progress = weights_.arriving())
      about.arriving = [progress](uint64_t first, uint64_t last) {
        return progress->wait_for(first, last);
      };
    auto* ahead = way_->early_gradients();
    if (ahead) {
      ahead->begin(to_payload(out));
      about.ready = [ahead](uint64_t first) {
        ahead->ready(4 * first);
      };
    }
    engine_.run(to_tensor(weights_), inputs_, targets_, out, about);
    weights_ = {};
    std::chrono::duration<double> took =
      std::chrono::steady_clock::now() - begun;
    if (ahead)
      ahead->computed(took.count());
    return to_payload(std::move(out));
  }

  /// An empty gradient is a pull.
  void exchange(const payload& gradient) {
    caf::scoped_actor self{system_};
    auto take = [&](const release_header&, const payload& weights) {
      weights_ = weights;
    };
    auto fail = [](const caf::error& why) {
      throw run_error("no answer: " + caf::to_string(why));
    };
    push_header header;
    header.id = {worker_id{0}, life_number{1}, sequence{++pushed_}};
    if (gradient)
      self->request(link_, caf::infinite, push_atom_v, header, gradient)
        .receive(take, fail);
    else
      self->request(link_, caf::infinite, pull_atom_v, pull_header{})
        .receive(take, fail);
  }

  bool ready_ = (init_messages(), true);
  caf::actor_system_config config_;
  caf::actor_system system_{config_};
  models::compute_engine engine_;
  models::flat_pool gradients_;
  at::Tensor inputs_, targets_;
  transport::path_ptr way_;
  framed_link_actor link_;
  payload weights_;
  uint64_t pushed_ = 0;
  std::vector<caf::actor> all_;
};

void measure_line(const setting& how, report& out, const task& job) {
  pair_on_a_line ours{job, overlap_rule::automatic};
  pair_on_a_line whole{job, overlap_rule::off};
  uint64_t steps = how.quick ? 1 : 8;
  ours.run(how.quick ? 1 : 3); // It learns how fast the line is.
  whole.run(1);
  auto name = "transport/overlap/" + job.network + "/" + job.line + "/step";
  auto found = alternate(how.quick ? 1 : 5,
                         {[&] { ours.run(steps); },
                          [&] {
                            whole.run(steps);
                          }},
                         [&](size_t) { out.progress(name); });
  auto each = [&](const spent& x) {
    return 1000 * x.seconds / static_cast<double>(steps);
  };
  out.add(compare(name, each(found[0]), "ms", "whole tensors", each(found[1]),
                  better::lower));
}

} // namespace

void measure_overlap(const setting& how, report& out) {
  at::set_num_threads(1);
  out.begin("a worker's step over a slow line: compute, push, pull");
  constexpr uint32_t gigabit = 125'000'000;
  // Small batches where only the form counts.
  int64_t batch = how.quick ? 2 : 32;
  measure_line(how, out, {"lenet", {64, 1, 28, 28}, "1Gbit", gigabit});
  measure_line(how, out,
               {"resnet18_cifar", {batch, 3, 32, 32}, "1Gbit", gigabit});
  measure_line(how, out,
               {"resnet18_cifar", {batch, 3, 32, 32}, "10Gbit", 10 * gigabit});
}

} // namespace troupe::bench
