#include "bench/transport/links.hpp"

#include "actors/admission/path_listener.hpp"
#include "actors/links/framed_link.hpp"
#include "actors/links/gateway.hpp"
#include "actors/links/local_link.hpp"
#include "actors/links/path_channel.hpp"
#include "actors/runtime/inline_execution.hpp"
#include "actors/runtime/spawning.hpp"
#include "actors/runtime/tensor_payload.hpp"
#include "actors/session/path_choice.hpp"
#include "config/text/failure.hpp"
#include "messages/transport/wire/meeting.hpp"
#include "models/layout/weights_store.hpp"
#include "models/optim/optimizer.hpp"

#include <vector>

namespace troupe::bench {

namespace {

/// Learning rate -1 and nothing else: the step is an addition.
config::training_settings addition() {
  config::training_settings out;
  out.optimizer = "sgd";
  out.momentum = 0;
  out.weight_decay = 0;
  return out;
}

/// A parameter server that accepts whatever comes.
class server_state {
public:
  using pointer = parameter_server_actor::stateful_pointer<server_state>;

  static constexpr const char* name = "troupe.bench.server";

  server_state(pointer, uint64_t count, service mode, payload_memory_ptr memory)
    : what_(mode),
      layout_(models::flat_layout::from({{"x", {static_cast<int64_t>(count)}}},
                                        config::scalar_type::float32)),
      store_(count, layout_.dtype(), std::move(memory)),
      optimizer_(models::make_optimizer(addition(), layout_)) {
    auto first = store_.next_buffer();
    first.zero_();
    publish(std::move(first));
  }

  parameter_server_actor::behavior_type make_behavior() {
    using weights = caf::result<release_header, payload>;
    return {
      [this](push_atom, const push_header&,
             const payload& gradient) -> weights {
        if (what_ == service::add)
          add(gradient);
        return {release_header{store_.newest()->id, life_number{1}, {}},
                newest_};
      },
      [this](pull_atom, const pull_header&) -> weights {
        return {release_header{store_.newest()->id, life_number{1}, {}},
                newest_};
      },
      [](watch_atom,
         const watch_request&) -> caf::result<watch_header, payload> {
        return caf::make_error(errc::shutting_down, std::string{"over"});
      },
      [](score_atom, const score&) {
        // nop
      },
    };
  }

private:
  void add(const payload& gradient) {
    // As a parameter server does.
    if (newest_.owner().use_count() == 1)
      newest_ = {};
    auto next = store_.step_buffer();
    auto tensor = to_tensor(gradient);
    double share = 1;
    optimizer_->step(next, store_.newest()->flat, {&tensor, 1}, {&share, 1},
                     -1);
    publish(std::move(next));
  }

  void publish(at::Tensor weights) {
    newest_ = to_payload(weights);
    auto newest = store_.newest();
    store_.publish(newest ? newest->id.next() : version{0}, std::move(weights));
  }

  service what_;
  models::flat_layout layout_;
  models::weights_store store_;
  std::unique_ptr<models::optimizer> optimizer_;
  payload newest_;
};

using driver_actor =
  caf::typed_actor<caf::result<uint64_t>(join_atom, uint64_t)>;

/// A worker that computes nothing: it pushes the same gradient so many times,
/// and returns the number of all its pushes so far.
class driver_state {
public:
  using pointer = driver_actor::stateful_pointer<driver_state>;

  static constexpr const char* name = "troupe.bench.driver";

  driver_state(pointer self, parameter_server_actor link, payload gradient)
    : self_(self), link_(std::move(link)), gradient_(std::move(gradient)) {
    // nop
  }

  driver_actor::behavior_type make_behavior() {
    return {[this](join_atom, uint64_t times) -> caf::result<uint64_t> {
      left_ = times;
      done_ = self_->make_response_promise<uint64_t>();
      push();
      return done_;
    }};
  }

private:
  void push() {
    if (left_ == 0)
      return done_.deliver(pushed_);
    --left_;
    push_header header;
    header.id = {worker_id{0}, life_number{1}, sequence{++pushed_}};
    header.samples = 64;
    weights_ = {};
    self_->request(link_, caf::infinite, push_atom_v, header, gradient_)
      .then(
        [this](const release_header&, const payload& weights) {
          weights_ = weights; // Released by the next push, as by a worker.
          push();
        },
        [this](const caf::error& why) { done_.deliver(why); });
  }

  pointer self_;
  parameter_server_actor link_;
  payload gradient_;
  payload weights_;
  caf::typed_response_promise<uint64_t> done_;
  uint64_t left_ = 0;
  uint64_t pushed_ = 0;
};

class server_loop final : public exchange {
public:
  server_loop(std::string path, size_t bytes, size_t workers, service mode,
              transport::credentials own)
    : path_(std::move(path)), shape_{element_type::float32, bytes / 4},
      own_(std::move(own)), system_(config_) {
    auto memory =
      path_ == "shm" ? payload_memory_ptr{servers_memory_} : heap_memory();
    server_ = keep(spawn_server(system_, shape_.count, mode, memory));
    coordinator_ = keep(spawn_nobody(system_));
    if (path_ == "shm" || path_ == "stream")
      listen();
    for (size_t i = 0; i < workers; ++i)
      drivers_.push_back(keep(spawn<driver_actor, driver_state>(
        system_, placement::scheduled, connect(), gradient())));
  }

  ~server_loop() override {
    if (acceptor_)
      acceptor_->close();
    drivers_.clear();
    for (const auto& who : all_)
      caf::anon_send_exit(who, caf::exit_reason::kill);
  }

  void run(uint64_t round_trips) override {
    caf::scoped_actor self{system_};
    std::vector<decltype(self->request(drivers_[0], caf::infinite, join_atom_v,
                                       round_trips))>
      asked;
    for (const auto& one : drivers_)
      asked.push_back(
        self->request(one, caf::infinite, join_atom_v, round_trips));
    for (auto& one : asked)
      one.receive([](uint64_t) {},
                  [](const caf::error& why) {
                    throw run_error("a push failed: " + caf::to_string(why));
                  });
  }

private:
  struct two_threads : caf::actor_system_config {
    two_threads() { allow_inline_execution(*this, 2); }
  };

  template <class Handle>
  Handle keep(Handle who) {
    all_.push_back(caf::actor_cast<caf::actor>(who));
    return who;
  }

  void listen() {
    transport::acceptor_terms terms;
    terms.host = "127.0.0.1";
    terms.own = own_;
    acceptor_ = std::make_shared<transport::acceptor>(std::move(terms));
    listener_ = keep(spawn<path_listener_actor, path_listener_state>(
      system_, placement::scheduled,
      path_listener_parts{acceptor_, server_, shape_, servers_memory_}));
  }

  parameter_server_actor connect() {
    if (path_ == "inproc")
      return keep(spawn_local_link(system_, server_));
    auto gateway = keep(spawn<gateway_actor, gateway_state>(
      system_, placement::scheduled,
      gateway_parts{server_, coordinator_, shape_}));
    proto::PathOffer offer;
    if (path_ == "stream")
      offer.set_stream_port(acceptor_->port());
    if (path_ == "shm")
      offer.set_shm_name(acceptor_->name());
    offer.set_token(transport::random_token());
    caf::anon_send(listener_, enlist_atom_v, offer.token(), gateway);
    auto way = path_choice{path_, {workers_memory_, {}, own_}, {}}.connect(
      offer, {"127.0.0.1", acceptor_->port()}, {shape_});
    auto link = keep(spawn<framed_link_actor, framed_link_state>(
      system_, placement::scheduled, gateway, make_path_channel(way), shape_));
    attach(gateway, link);
    return link;
  }

  void attach(const gateway_actor& gateway,
              const parameter_server_actor& link) {
    caf::scoped_actor self{system_};
    self->request(gateway, caf::infinite, attach_atom_v, link)
      .receive([](const coordinator_actor&) {},
               [](const caf::error& why) {
                 throw run_error("no link: " + caf::to_string(why));
               });
  }

  payload gradient() {
    models::flat_pool pool{shape_.count, config::scalar_type::float32,
                           path_ == "shm" ? payload_memory_ptr{workers_memory_}
                                          : heap_memory()};
    auto tensor = pool.take_tensor();
    tensor.fill_(1e-6);
    return to_payload(std::move(tensor));
  }

  bool ready_ = (init_messages(), true);
  std::string path_;
  payload_shape shape_;
  transport::credentials own_;
  std::shared_ptr<transport::shared_memory> servers_memory_ =
    std::make_shared<transport::shared_memory>();
  std::shared_ptr<transport::shared_memory> workers_memory_ =
    std::make_shared<transport::shared_memory>();
  two_threads config_;
  caf::actor_system system_;
  parameter_server_actor server_;
  coordinator_actor coordinator_;
  std::shared_ptr<transport::acceptor> acceptor_;
  path_listener_actor listener_;
  std::vector<driver_actor> drivers_;
  std::vector<caf::actor> all_;
};

} // namespace

parameter_server_actor spawn_server(caf::actor_system& system, uint64_t count,
                                    service mode, payload_memory_ptr memory) {
  return spawn<parameter_server_actor, server_state>(
    system, placement::scheduled, count, mode, std::move(memory));
}

coordinator_actor spawn_nobody(caf::actor_system& system) {
  return system.spawn(
    [](coordinator_actor::pointer) -> coordinator_actor::behavior_type {
      return {
        [](register_atom, const registration_request&, const worker_actor&) {
          return registration{};
        },
        [](register_atom, const evaluator_actor&) { return life_number{1}; },
        [](leave_atom, worker_id, life_number, const std::string&) {},
        [](detach_atom, const worker_actor&) {},
        [](detach_atom, worker_id, life_number, const std::string&) {},
        [](join_atom) {},
        [](ending_atom) {},
        [](ended_atom, const run_end&) {},
        [](ended_atom, version, const std::vector<push_id>&, const payload&) {},
        [](fetch_atom) -> last_version {
          return caf::make_error(errc::shutting_down);
        },
        [](credit_atom) {},
        [](tick_atom) {},
      };
    });
}

std::unique_ptr<exchange> linked(const std::string& path, size_t bytes,
                                 size_t workers, service mode,
                                 const transport::credentials& own) {
  return std::make_unique<server_loop>(path, bytes, workers, mode, own);
}

} // namespace troupe::bench
