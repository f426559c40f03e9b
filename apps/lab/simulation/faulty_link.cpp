#include "apps/lab/simulation/faulty_link.hpp"

#include "actors/links/local_link.hpp"
#include "actors/runtime/run_clock.hpp"
#include "actors/runtime/spawning.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace troupe {

namespace {

/// Both ends of the wire: a parameter server to the worker, a worker to the
/// server.
using wire_actor = remote_module_actor::extend_with<worker_actor>::extend<
  // Names the worker's own end.
  caf::result<void>(enlist_atom, parameter_server_actor),
  // Checks whether the other side is silent.
  caf::result<void>(tick_atom)>;

/// A gradient that nobody waits for any more. The actor ends when it has
/// arrived.
class stray_state {
public:
  using pointer = caf::event_based_actor*;

  static void send_off(caf::actor_system& system,
                       const faulty_link_parts& parts,
                       const push_header& header, const payload& gradient,
                       caf::timespan after) {
    system.spawn([=](pointer self) {
      self->run_delayed(after, [=] { arrive(self, parts, header, gradient); });
      return caf::behavior{[](caf::unit_t) {
      }};
    });
  }

private:
  static void arrive(pointer self, const faulty_link_parts& parts,
                     const push_header& header, const payload& gradient) {
    auto now = self->clock().now();
    const auto& line = (*parts.faults.lines)[parts.faults.rank];
    if (line.cut_up(now)) {
      self->run_delayed(line.up_cut_until - now,
                        [=] { arrive(self, parts, header, gradient); });
      return;
    }
    // A remote module is there for one link only.
    auto there = parts.faults.find();
    if (!there)
      return self->quit();
    auto to = parts.with.modules ? parts.with.server
                                 : parameter_server_actor{there->lead};
    self->request(to, caf::infinite, push_atom_v, header, gradient)
      .then([=](const release_header&, const payload&) { self->quit(); },
            [=, watch = parts.faults.watch](const caf::error& why) {
              watch->turned_away(header, why);
              self->quit();
            });
  }
};

class wire_state {
public:
  using pointer = wire_actor::stateful_pointer<wire_state>;

  static constexpr const char* name = "troupe.faulty-link";

  wire_state(pointer self, faulty_link_parts parts)
    : self_(self), parts_(std::move(parts)), clock_(self), near_heard_(now()),
      far_heard_(now()) {
    // nop
  }

  ~wire_state() {
    if (parts_.with.modules)
      caf::anon_send_exit(parts_.with.modules, caf::exit_reason::user_shutdown);
  }

  wire_state(const wire_state&) = delete;
  wire_state& operator=(const wire_state&) = delete;

  wire_actor::behavior_type make_behavior() {
    self_->monitor(parts_.with.server);
    self_->set_down_handler([this](const caf::down_msg& msg) { down(msg); });
    self_->delayed_send(self_, to_timespan(parts_.faults.silence / 8),
                        tick_atom_v);
    return {
      // From the worker.
      [this](push_atom, const push_header& header,
             const payload& gradient) -> caf::result<release_header, payload> {
        return push(header, gradient);
      },
      [this](pull_atom, const pull_header& header)
        -> caf::result<release_header, payload> { return pull(header); },
      [](watch_atom,
         const watch_request&) -> caf::result<watch_header, payload> {
        return caf::make_error(errc::protocol_violation);
      },
      [](score_atom, const score&) {},
      [this](forward_atom msg, const module_call& call) {
        return pass(msg, call);
      },
      [this](backward_atom msg, const module_call& call) {
        return pass(msg, call);
      },
      // From the server, and for modules from the worker.
      [](attach_atom, const parameter_server_actor&, const registration&,
         const gradient_way&) {},
      [](detach_atom) {},
      [this](cancel_atom, version before) {
        go_down(0, [this, before] {
          self_->send(parts_.worker, cancel_atom_v, before);
        });
      },
      [this](write_atom, version at, sequence settled) {
        return ask_worker<void>(write_atom_v, at, settled);
      },
      // Only the worker's own session asks, and asks the worker itself.
      [](leave_atom) { return sequence{0}; },
      [this](ping_atom) { return ask_worker<uint64_t>(ping_atom_v); },
      [](report_atom) { return std::string{}; },
      [this](cancel_atom, lease_id which) {
        go_up(0, [this, which] {
          self_->send(parts_.with.modules, cancel_atom_v, which);
        });
      },
      [this](stop_atom, const run_end& how) {
        go_down(0,
                [this, how] { self_->send(parts_.worker, stop_atom_v, how); });
      },
      // From the link itself.
      [this](enlist_atom, const parameter_server_actor& near) {
        near_ = near;
        self_->monitor(near);
      },
      [this](tick_atom) { look_for_silence(); },
    };
  }

private:
  using weights_promise = caf::typed_response_promise<release_header, payload>;
  using cut_end = caf::actor_clock::time_point simulation::line::*;

  struct sent {
    push_header header;
    payload gradient;
    caf::actor_clock::time_point due;
  };

  // -- requests ---------------------------------------------------------------

  caf::result<release_header, payload> push(const push_header& header,
                                            const payload& gradient) {
    parts_.faults.watch->pushed(header);
    auto promise = self_->make_response_promise<release_header, payload>();
    auto id = ++last_sent_;
    auto due = go_up(parts_.terms.bytes_of_gradient(gradient), [=, this] {
      under_way_.erase(id);
      hand_over(header, promise, push_atom_v, header, gradient);
    });
    under_way_[id] = {header, gradient, due};
    if (const auto& line = state(); line.copies(time()))
      stray_state::send_off(self_->system(), parts_, header, gradient,
                            due - time() + to_timespan(line.copied_after));
    return promise;
  }

  caf::result<release_header, payload> pull(const pull_header& header) {
    auto promise = self_->make_response_promise<release_header, payload>();
    go_up(0,
          [=, this] { hand_over(std::nullopt, promise, pull_atom_v, header); });
    return promise;
  }

  /// Gives a request to the server, and its answer to the worker.
  template <class... Ts>
  void hand_over(const std::optional<push_header>& header,
                 const weights_promise& promise, const Ts&... message) {
    self_->request(parts_.with.server, caf::infinite, message...)
      .then(
        [=, this](const release_header& answer, const payload& weights) {
          go_down(parts_.terms.bytes_of(weights, has_fragment(answer)),
                  [=, this, promise = promise]() mutable {
                    if (header)
                      parts_.faults.watch->acknowledged(*header, answer);
                    promise.deliver(answer, weights);
                  });
        },
        [=, this](const caf::error& why) {
          if (header)
            parts_.faults.watch->turned_away(*header, why);
          go_down(0,
                  [promise = promise, why]() mutable { promise.deliver(why); });
        });
  }

  /// Has a pass computed by the server's modules.
  template <class Atom>
  caf::result<module_answer> pass(Atom verb, const module_call& call) {
    auto promise = self_->make_response_promise<module_answer>();
    go_up(bytes_of(call), [=, this] {
      self_->request(parts_.with.modules, caf::infinite, verb, call)
        .then(
          [=, this](const module_answer& answer) {
            go_down(bytes_of(answer), [promise = promise, answer]() mutable {
              promise.deliver(answer);
            });
          },
          [=, this](const caf::error& why) {
            go_down(
              0, [promise = promise, why]() mutable { promise.deliver(why); });
          });
    });
    return promise;
  }

  template <class Answer, class... Ts>
  caf::result<Answer> ask_worker(const Ts&... message) {
    auto promise = self_->make_response_promise<Answer>();
    go_down(0, [=, this] {
      self_->request(parts_.worker, caf::infinite, message...)
        .then(answer_to(promise), [](const caf::error&) {
          // The worker is dead: no answer is needed.
        });
    });
    return promise;
  }

  /// Sends the worker's answer up.
  auto answer_to(const caf::typed_response_promise<void>& promise) {
    return [this, promise] {
      go_up(0, [promise = promise]() mutable { promise.deliver(); });
    };
  }

  template <class Answer>
  auto answer_to(const caf::typed_response_promise<Answer>& promise) {
    return [this, promise](Answer answer) {
      go_up(0,
            [promise = promise, answer]() mutable { promise.deliver(answer); });
    };
  }

  // -- transfer times ---------------------------------------------------------

  template <class F>
  caf::actor_clock::time_point go_up(uint64_t bytes, F then) {
    return go(up_, up_arrival_, &simulation::line::up_cut_until, bytes,
              std::move(then));
  }

  template <class F>
  void go_down(uint64_t bytes, F then) {
    go(down_, down_arrival_, &simulation::line::down_cut_until, bytes,
       std::move(then));
  }

  template <class F>
  caf::actor_clock::time_point go(link_direction& way, double& arrival,
                                  cut_end cut, uint64_t bytes, F then) {
    auto whole = way.passed(now(), bytes, parts_.terms) + parts_.terms.latency;
    arrival = std::max(arrival, whole + state().delay(time()));
    auto after = to_timespan(arrival - now());
    arrive_after(after, cut, std::move(then));
    return time() + after;
  }

  template <class F>
  void arrive_after(caf::timespan after, cut_end cut, F then) {
    self_->run_delayed(after, [this, cut, then = std::move(then)]() mutable {
      auto open_at = state().*cut;
      if (time() >= open_at)
        then();
      else if (near_)
        arrive_after(open_at - time(), cut, std::move(then));
    });
  }

  // -- the end ----------------------------------------------------------------

  void down(const caf::down_msg& down) {
    if (down.source == parts_.with.server.address()) {
      let_go();
      self_->quit();
    } else if (near_ && down.source == near_.address()) {
      near_ = nullptr;
      let_go();
      close_when_open();
    }
  }

  /// Lets gradients that are on their way arrive without this actor.
  void let_go() {
    for (const auto& [id, what] : std::exchange(under_way_, {}))
      stray_state::send_off(self_->system(), parts_, what.header, what.gradient,
                            std::max(what.due - time(), caf::timespan{0}));
  }

  /// Tells the server as soon as it can be reached.
  void close_when_open() {
    auto after = to_timespan(parts_.terms.latency);
    if (state().cut_up(time()))
      after = state().up_cut_until - time();
    self_->run_delayed(after, [this] {
      if (state().cut_up(time()))
        close_when_open();
      else
        break_off();
    });
  }

  /// Each end gives up when it hears nothing; the worker's first.
  void look_for_silence() {
    if (!state().cut_down(time()))
      near_heard_ = now();
    if (!state().cut_up(time()))
      far_heard_ = now();
    if (near_ && now() - near_heard_ > parts_.faults.silence)
      return close_near();
    if (now() - far_heard_ > parts_.faults.silence)
      return break_off();
    self_->delayed_send(self_, to_timespan(parts_.faults.silence / 8),
                        tick_atom_v);
  }

  void close_near() {
    under_way_.clear();
    self_->demonitor(near_);
    self_->send_exit(near_, caf::make_error(errc::peer_lost));
    near_ = nullptr;
    self_->delayed_send(self_, to_timespan(parts_.faults.silence / 8),
                        tick_atom_v);
    close_when_open();
  }

  void break_off() { self_->quit(caf::make_error(errc::peer_lost)); }

  // -- helpers ----------------------------------------------------------------

  simulation::line& state() {
    return (*parts_.faults.lines)[parts_.faults.rank];
  }

  caf::actor_clock::time_point time() const { return self_->clock().now(); }

  double now() const { return clock_.elapsed(self_); }

  pointer self_;
  faulty_link_parts parts_;
  run_clock clock_;
  parameter_server_actor near_;
  link_direction up_; ///< To the server.
  link_direction down_;
  double up_arrival_ = 0; ///< When the last message up arrives.
  double down_arrival_ = 0;
  double near_heard_; ///< When the worker's end last heard of the other, ...
  double far_heard_;  ///< ... and the server's.
  uint64_t last_sent_ = 0;
  std::map<uint64_t, sent> under_way_; ///< Gradients.
};

} // namespace

made_link spawn_faulty_link(caf::actor_system& system,
                            faulty_link_parts parts) {
  auto wire = spawn<wire_actor, wire_state>(system, placement::scheduled,
                                            std::move(parts));
  auto near = parameter_server_actor{
    spawn_local_link(system, parameter_server_actor{wire}, module_actor{wire})};
  caf::anon_send(wire, enlist_atom_v, near);
  return {near, worker_actor{wire}};
}

} // namespace troupe
