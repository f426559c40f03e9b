#pragma once
// The stream of events of a parameter server: each of its inputs with the
// decision that followed, numbered. Subscribers (metrics, the event log, the
// invariant checker) are told before the decision takes effect. Except for
// tensors, the server's state is a function of this stream. See
// docs/design/0018-server-events.md.
//
// Owned by the parameter server, which calls subscribers on its own thread; not
// thread-safe.

#include "actors/core/step_scheduler.hpp"
#include "messages/proto/manifest.pb.h"
#include "messages/types.hpp"

#include <caf/actor_clock.hpp>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace troupe {

/// The kinds of input that a parameter server gets.
namespace inputs {

/// The server has met its coordinator. `from` is the checkpoint that this life
/// starts from, or null; it is valid only while subscribers are told.
struct started {
  life_number server;
  const proto::Manifest* from = nullptr;
};

struct enlisted {
  worker_id who;
  life_number life;
  std::string transport;
  owned_data data{};
  uint32_t leases = cores::leases_ahead; ///< That it wants to have at a time.
  std::string device{}; ///< The GPU that it computes on; empty: none.
};

struct joined {
  std::vector<worker_id> who;
};

struct left {
  worker_id who;
  life_number life;
  std::string reason;
};

struct pulled {
  pull_header header;
};

/// A gradient, sound or refused.
struct arrived {
  push_header header;
  std::vector<lease> from; ///< According to the server's ledger; one at least.
  errc refused = errc::none;
  std::string reason{}; ///< Why it was refused, as text for people.
  uint64_t bytes = 0;   ///< Of the part of it that the lead got.
  /// If norms are watched, and the gradient is sound.
  std::optional<cores::judged_norm> norm{};
};

/// The leases of this worker take longer than they should while others have
/// nothing to do, so the others may have them, too.
struct deadline_passed {
  worker_id who;
  life_number life;
};

/// A time limit that the policy had begun at this version has passed.
struct window_over {
  version at;
};

/// The run goes on with this policy, written as in `--policy`.
struct policy_changed {
  std::string policy;
};

struct scored {
  score found;
};

/// So many evaluators are connected.
struct evaluators {
  uint32_t count = 0;
};

/// A checkpoint is durable.
struct saved {
  version what;
  std::string name;
};

struct stopped {};

struct failed {
  std::string line;
};

/// Training ends, for this reason: workers are told to stop, and the weights
/// change no more.
struct ending {
  std::string reason;
};

struct ended {
  std::string status;
  version steps;
  std::optional<std::string> weights_sha256;
  std::optional<std::string> state_sha256{};
};

} // namespace inputs

using input =
  std::variant<inputs::started, inputs::enlisted, inputs::joined, inputs::left,
               inputs::pulled, inputs::arrived, inputs::deadline_passed,
               inputs::window_over, inputs::policy_changed, inputs::scored,
               inputs::evaluators, inputs::saved, inputs::stopped,
               inputs::failed, inputs::ending, inputs::ended>;

struct event {
  uint64_t number = 0; ///< 1, 2, ... within this life of the server.
  caf::actor_clock::time_point time;
  input what;
  cores::orders decided;
  /// The learning rate of each update that was decided on, in their order.
  std::vector<double> rates;
  version newest; ///< The newest version, with these updates applied.
};

class event_subscriber {
public:
  virtual ~event_subscriber() = default;

  /// May throw. Then the run fails, and the decision is not carried out.
  virtual void on_event(const event& entry) = 0;
};

class event_stream {
public:
  /// Subscribers are told in the order of their subscription.
  void subscribe(std::shared_ptr<event_subscriber> who) {
    if (who)
      subscribers_.push_back(std::move(who));
  }

  /// Numbers an event and passes it to all subscribers.
  void emit(event& entry) {
    entry.number = ++number_;
    for (const auto& each : subscribers_)
      each->on_event(entry);
  }

private:
  std::vector<std::shared_ptr<event_subscriber>> subscribers_;
  uint64_t number_ = 0;
};

/// For `std::visit` over an input: one function for each kind that matters.
template <class... Fs>
struct overloaded : Fs... {
  using Fs::operator()...;
};

template <class... Fs>
overloaded(Fs...) -> overloaded<Fs...>;

} // namespace troupe
