#pragma once
// The stream of events of a parameter server: each of its inputs with the
// decision that followed, numbered, told to all who subscribe before anybody
// learns of the decision. But for tensors the server's state is a function of
// it. docs/design/0018-server-events.md
//
// Not thread-safe; one owner, the server, on whose thread subscribers are
// called.

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

/// What a parameter server is told.
namespace inputs {

/// It has met its coordinator. `from`: the checkpoint that this life begins
/// with, or null; valid while the event is told.
struct started {
  incarnation server;
  const proto::Manifest* from = nullptr;
};

struct enlisted {
  worker_id who;
  incarnation life;
  std::string transport;
  owned_data data{};
};

struct joined {
  std::vector<worker_id> who;
};

struct left {
  worker_id who;
  incarnation life;
  std::string reason;
};

struct pulled {
  pull_header header;
};

/// A gradient, sound or refused.
struct arrived {
  push_header header;
  lease from; ///< As the server's ledger has it.
  errc refused = errc::none;
  std::string reason{}; ///< Of the refusal, for people.
};

struct scored {
  score found;
};

struct audience {
  uint32_t evaluators = 0;
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

/// Workers are sent home, for this reason: no weights change any more.
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
               inputs::pulled, inputs::arrived, inputs::scored,
               inputs::audience, inputs::saved, inputs::stopped, inputs::failed,
               inputs::ending, inputs::ended>;

struct event {
  uint64_t number = 0; ///< 1, 2, ... of this life.
  caf::actor_clock::time_point time;
  input what;
  cores::orders decided;
  /// Learning rate of each update that was decided on, in their order.
  std::vector<double> rates;
  version newest; ///< Of the weights, the updates included.
};

class event_subscriber {
public:
  virtual ~event_subscriber() = default;

  /// May throw: then the run fails, and nobody learns of the decision.
  virtual void on_event(const event& what) = 0;
};

class event_stream {
public:
  /// In this order they are told.
  void subscribe(std::shared_ptr<event_subscriber> who) {
    if (who)
      subscribers_.push_back(std::move(who));
  }

  /// Numbers an event and tells it to all.
  void emit(event& what) {
    what.number = ++number_;
    for (const auto& each : subscribers_)
      each->on_event(what);
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

} // namespace troupe
