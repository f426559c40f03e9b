#pragma once
// The event tape as the parameter server keeps it: each of its inputs with the
// decision that followed, handed to a sink before anybody learns of it. What
// the sink does (write, check) is not this file's business.
//
// Not thread-safe; one owner.

#include "actors/cores/conductor.hpp"
#include "messages/proto/tape.pb.h"
#include "messages/types.hpp"

#include <functional>
#include <optional>
#include <span>
#include <string>

namespace troupe {

/// Takes an event. Throws `run_error` when it cannot (disk full): the run fails
/// then. Called by the parameter server, in the order of its decisions.
using tape_sink = std::function<void(proto::TapeEvent&)>;

/// What a parameter server is told.
namespace inputs {

struct started {};

struct enlisted {
  worker_id who;
  incarnation life;
  const std::string& transport;
  owned_data data{};
};

struct joined {
  std::span<const worker_id> who;
};

struct left {
  worker_id who;
  incarnation life;
  const std::string& reason;
};

struct pulled {
  const pull_header& header;
};

struct arrived {
  const push_header& header;
  lease from; ///< As the server's ledger has it.
  errc refused = errc::none;
};

struct scored {
  const score& found;
};

struct audience {
  uint32_t evaluators;
};

struct stopped {};

struct failed {
  const std::string& line;
};

struct ended {
  const std::string& status;
  version steps;
  std::optional<std::string> weights_sha256;
  std::optional<std::string> state_sha256{};
};

} // namespace inputs

class event_tape {
public:
  using time_point = caf::actor_clock::time_point;

  /// Begins at `now`. An empty sink: nothing is kept.
  event_tape(tape_sink sink, time_point now)
    : sink_(std::move(sink)), start_(now) {
    // nop
  }

  explicit operator bool() const { return static_cast<bool>(sink_); }

  /// Nothing is kept any more.
  void end() { sink_ = nullptr; }

  /// Keeps one event. Throws what the sink throws.
  template <class Input>
  void keep(time_point now, const Input& what, const cores::orders& decided) {
    event_.Clear();
    event_.set_time_ns(
      std::chrono::duration_cast<std::chrono::nanoseconds>(now - start_)
        .count());
    fill(what);
    fill(decided);
    sink_(event_);
  }

private:
  void fill(const inputs::started& what);
  void fill(const inputs::enlisted& what);
  void fill(const inputs::joined& what);
  void fill(const inputs::left& what);
  void fill(const inputs::pulled& what);
  void fill(const inputs::arrived& what);
  void fill(const inputs::scored& what);
  void fill(const inputs::audience& what);
  void fill(const inputs::stopped& what);
  void fill(const inputs::failed& what);
  void fill(const inputs::ended& what);
  void fill(const cores::orders& decided);

  tape_sink sink_;
  time_point start_;
  proto::TapeEvent event_; ///< Its memory is used again.
};

} // namespace troupe
