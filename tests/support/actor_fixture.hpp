#pragma once
// An actor system that a test drives by hand: messages are handled only in
// `run`, in one thread and in a fixed order, and time passes only in `advance`.
// Owned by a test, used on its thread.

#include "actors/runtime/run_clock.hpp"
#include "actors/runtime/spawning.hpp"
#include "messages/interfaces.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

namespace troupe::test {

/// The answer to a request, once there is one.
template <class... Ts>
struct answer {
  std::optional<std::tuple<Ts...>> values;
  std::optional<caf::error> error;

  bool open() const { return !values && !error; }

  template <class T>
  const T& get() const {
    return std::get<T>(values.value());
  }

  /// The code of the error; `none` if it is not one of ours.
  errc code() const {
    if (!error || error->category() != caf::type_id_v<errc>)
      return errc::none;
    return static_cast<errc>(error->code());
  }
};

template <class... Ts>
using answer_ptr = std::shared_ptr<answer<Ts...>>;

class actor_fixture {
public:
  actor_fixture() : system_(config_), time_(system_) {
    // nop
  }

  /// Ends all actors. No handler runs any more, so what they refer to may
  /// already be destroyed.
  ~actor_fixture() {
    for (const auto& who : actors_)
      caf::anon_send_exit(who, caf::exit_reason::kill);
    time_.run_until_idle();
  }

  caf::actor_system& system() { return system_; }

  /// Handles messages until there are none.
  void run() {
    time_.run_until_idle();
    forget_contexts();
  }

  /// Handles one message.
  void run_one() { time_.run_until_idle(1); }

  /// Lets time pass in small steps, and handles the messages of each.
  void advance(double seconds) {
    constexpr double step = 0.05;
    for (; seconds > 0; seconds -= step) {
      time_.advance(to_timespan(std::min(seconds, step)));
      run();
    }
  }

  /// Lets time pass at once, as for a process that was stopped meanwhile.
  void oversleep(double seconds) {
    time_.advance(to_timespan(seconds));
    run();
  }

  /// Spawns an actor of ours.
  template <class Handle, class State, class... Args>
  Handle make(Args&&... args) {
    return keep(troupe::spawn<Handle, State>(system_, placement::scheduled,
                                             std::forward<Args>(args)...));
  }

  /// Spawns a double of one of our actors.
  /// @param make_behavior Gets the actor's self pointer, and returns its
  /// behaviour.
  template <class Handle, class F>
  Handle stand_in(F make_behavior) {
    using self_pointer = typename Handle::pointer;
    return keep(system_.spawn(
      [make_behavior](self_pointer self) ->
      typename Handle::behavior_type { return make_behavior(self); }));
  }

  /// Sends a request. The answer is there after `run`, unless the actor holds
  /// it.
  template <class... Ts, class Handle, class... Args>
  answer_ptr<Ts...> ask(const Handle& whom, Args... args) {
    auto out = std::make_shared<answer<Ts...>>();
    keep(system_.spawn([=](caf::event_based_actor* self) {
      self->request(whom, caf::infinite, args...)
        .then([=](const Ts&... xs) { out->values.emplace(xs...); },
              [=](const caf::error& why) { out->error = why; });
    }));
    return out;
  }

  template <class Handle, class... Args>
  void tell(const Handle& whom, Args... args) {
    caf::anon_send(whom, args...);
    run();
  }

  template <class Handle>
  void kill(const Handle& whom) {
    caf::anon_send_exit(whom, caf::exit_reason::kill);
    run();
  }

  /// Whether the actor still takes messages.
  template <class Handle>
  bool alive(const Handle& whom) {
    auto gone = std::make_shared<bool>(false);
    auto probe = system_.spawn([=](caf::event_based_actor* self) {
      self->monitor(whom);
      self->set_down_handler([=](const caf::down_msg&) { *gone = true; });
      return caf::behavior{[](caf::unit_t) {
      }};
    });
    run();
    caf::anon_send_exit(probe, caf::exit_reason::kill);
    run();
    return !*gone;
  }

private:
  struct config : caf::actor_system_config {
    config() { virtual_time::choose(*this); }
  };

  template <class Handle>
  Handle keep(Handle who) {
    actors_.push_back(caf::actor_cast<caf::strong_actor_ptr>(who));
    return who;
  }

  /// Makes actors forget the scheduler's worker that ran them last, which
  /// exists only during `run`: a test that delivers a promise would send
  /// through that worker.
  void forget_contexts() {
    for (const auto& who : actors_)
      static_cast<caf::local_actor*>(caf::actor_cast<caf::abstract_actor*>(who))
        ->context(nullptr);
  }

  bool ready_ = (init_messages(), true);
  config config_;
  caf::actor_system system_;
  virtual_time time_;
  std::vector<caf::strong_actor_ptr> actors_;
};

} // namespace troupe::test
