#include "apps/lab/simulation/simulated_link.hpp"

#include "actors/runtime/run_clock.hpp"
#include "actors/runtime/spawning.hpp"
#include "apps/lab/simulation/faulty_link.hpp"

#include <utility>

namespace troupe {

namespace {

class simulated_link_state {
public:
  using pointer = remote_module_actor::stateful_pointer<simulated_link_state>;

  static constexpr const char* name = "troupe.simulated-link";

  simulated_link_state(pointer self, far_end with, const link_terms& terms)
    : self_(self), server_(std::move(with.server)),
      modules_(std::move(with.modules)), terms_(terms), clock_(self) {
    // nop
  }

  ~simulated_link_state() {
    if (modules_)
      caf::anon_send_exit(modules_, caf::exit_reason::user_shutdown);
  }

  simulated_link_state(const simulated_link_state&) = delete;
  simulated_link_state& operator=(const simulated_link_state&) = delete;

  remote_module_actor::behavior_type make_behavior() {
    self_->monitor(server_);
    self_->set_down_handler([this](const caf::down_msg&) { self_->quit(); });
    return {
      [this](push_atom msg, const push_header& header,
             const payload& gradient) -> caf::result<release_header, payload> {
        return carry<release_header>(terms_.bytes_of_gradient(gradient), msg,
                                     header, gradient);
      },
      [this](pull_atom msg, const pull_header& header)
        -> caf::result<release_header, payload> {
        return carry<release_header>(0, msg, header);
      },
      [this](watch_atom msg, const watch_request& request)
        -> caf::result<watch_header, payload> {
        return carry<watch_header>(0, msg, request);
      },
      [this](score_atom msg, const score& found) {
        self_->run_delayed(through(up_, 0), [this, msg, found] {
          self_->send(server_, msg, found);
        });
      },
      [this](forward_atom msg, const module_call& call) {
        return carry(msg, call);
      },
      [this](backward_atom msg, const module_call& call) {
        return carry(msg, call);
      },
      [this](cancel_atom msg, lease_id which) {
        self_->run_delayed(through(up_, 0), [this, msg, which] {
          self_->send(modules_, msg, which);
        });
      },
    };
  }

private:
  /// Sends a request to the server, and its answer back.
  template <class Header, class... Ts>
  caf::result<Header, payload> carry(uint64_t bytes, const Ts&... message) {
    auto promise = self_->make_response_promise<Header, payload>();
    self_->run_delayed(through(up_, bytes), [=, this] {
      self_->request(server_, caf::infinite, message...)
        .then(
          [=, this](const Header& header, const payload& weights) {
            auto bytes = terms_.bytes_of(weights, has_fragment(header));
            deliver(promise, through(down_, bytes), header, weights);
          },
          [=, this](const caf::error& why) {
            deliver(promise, through(down_, 0), why);
          });
    });
    return promise;
  }

  /// Has a pass computed at the other end.
  template <class Atom>
  caf::result<module_answer> carry(Atom msg, const module_call& call) {
    auto promise = self_->make_response_promise<module_answer>();
    self_->run_delayed(through(up_, bytes_of(call)), [=, this] {
      self_->request(modules_, caf::infinite, msg, call)
        .then(
          [=, this](const module_answer& answer) {
            deliver(promise, through(down_, bytes_of(answer)), answer);
          },
          [=, this](const caf::error& why) {
            deliver(promise, through(down_, 0), why);
          });
    });
    return promise;
  }

  template <class Promise, class... Ts>
  void deliver(Promise promise, caf::timespan after, const Ts&... answer) {
    self_->run_delayed(after, [=]() mutable { promise.deliver(answer...); });
  }

  /// How long a message of this size takes if it is sent now.
  caf::timespan through(link_direction& way, uint64_t bytes) {
    auto now = clock_.elapsed(self_);
    return to_timespan(way.passed(now, bytes, terms_) - now + terms_.latency);
  }

  pointer self_;
  parameter_server_actor server_;
  module_actor modules_;
  link_terms terms_;
  run_clock clock_;
  link_direction up_;
  link_direction down_;
};

} // namespace

made_link spawn_simulated_link(caf::actor_system& system, const far_end& with,
                               const participant& who, const link_terms& terms,
                               const std::optional<link_faults>& faults) {
  if (faults)
    return spawn_faulty_link(
      system, {with, std::get<worker_actor>(who), terms, *faults});
  auto link = spawn<remote_module_actor, simulated_link_state>(
    system, placement::scheduled, with, terms);
  return {parameter_server_actor{link}, who};
}

} // namespace troupe
