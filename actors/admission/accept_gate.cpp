#include "actors/admission/accept_gate.hpp"

#include "actors/runtime/run_clock.hpp"

#include <caf/io/middleman.hpp>

#include <algorithm>
#include <set>
#include <utility>

namespace troupe {

namespace {

/// Seconds between two checks: while many descriptors are free, and otherwise.
constexpr double long_pause = 1;
constexpr double short_pause = 0.1;
constexpr size_t many = 256;

/// Descriptors reserved for the run itself: checkpoints, paths, event logs.
size_t reserve(size_t most) {
  return std::min<size_t>(16, most / 4);
}

/// What each new node needs: a connection and a path, twice.
constexpr size_t newcomers = 4;

} // namespace

bool should_accept(bool open, size_t left, size_t most) {
  return left >= reserve(most) + (open ? 0 : newcomers);
}

accept_gate_state::accept_gate_state(pointer self, accept_gate_parts parts)
  : self_(self), parts_(std::move(parts)) {
  // nop
}

accept_gate_actor::behavior_type accept_gate_state::make_behavior() {
  self_->monitor(parts_.admission);
  self_->set_down_handler([this](const caf::down_msg&) { self_->quit(); });
  self_->send(self_, tick_atom_v);
  return {[this](tick_atom) {
    look();
  }};
}

void accept_gate_state::look() {
  auto left = files_.left();
  auto should = should_accept(open_, left, files_.most());
  if (!busy_ && should && !open_)
    open();
  else if (!busy_ && !should && open_)
    shut(left);
  self_->delayed_send(
    self_, to_timespan(open_ && left > many ? long_pause : short_pause),
    tick_atom_v);
}

void accept_gate_state::shut(size_t left) {
  busy_ = true;
  self_
    ->request(self_->system().middleman().actor_handle(), caf::infinite,
              caf::unpublish_atom_v, parts_.admission.address(), parts_.port)
    .then([this] { busy_ = open_ = false; },
          [this](const caf::error&) { busy_ = open_ = false; });
  parts_.say("port         shut: " + std::to_string(left) + " of the " +
             std::to_string(files_.most()) +
             " files that this process may open are left; nodes can join again "
             "when more are free (raise the limit with ulimit -n)");
}

void accept_gate_state::open() {
  auto& system = self_->system();
  busy_ = true;
  self_
    ->request(system.middleman().actor_handle(), caf::infinite,
              caf::publish_atom_v, parts_.port,
              caf::actor_cast<caf::strong_actor_ptr>(parts_.admission),
              system.message_types<admission_actor>(), parts_.host, true)
    .then(
      [this](uint16_t) {
        busy_ = told_ = false;
        open_ = true;
        parts_.say("port         open again");
      },
      [this](const caf::error&) {
        busy_ = false;
        if (!std::exchange(told_, true))
          parts_.say("port         stays shut: " + std::to_string(parts_.port) +
                     " cannot be had any more");
      });
}

} // namespace troupe
