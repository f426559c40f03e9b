#include "actors/runtime/supervisor.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

supervisor_state::supervisor_state(pointer self, supervisor_parts parts)
  : self_(self), parts_(std::move(parts)) {
  // nop
}

supervisor_actor::behavior_type supervisor_state::make_behavior() {
  self_->set_down_handler([this](const caf::down_msg& msg) { down(msg); });
  return {
    [this](supervise_atom, const std::string& name,
           const caf::strong_actor_ptr& who) { watch(name, who); },
    [this](ended_atom, const run_end& how) { end(how); },
  };
}

void supervisor_state::watch(const std::string& name,
                             const caf::strong_actor_ptr& who) {
  core_.push_back({name, caf::actor_cast<caf::actor_addr>(who)});
  self_->monitor(core_.back().address);
}

void supervisor_state::down(const caf::down_msg& msg) {
  auto who = std::ranges::find_if(
    core_, [&](const core_actor& one) { return one.address == msg.source; });
  if (who != core_.end() && msg.reason &&
      msg.reason != caf::exit_reason::user_shutdown)
    end({1, "the " + who->name + " died: " + text_of(msg.reason)});
}

void supervisor_state::end(const run_end& how) {
  parts_.on_end(how);
  self_->quit();
}

} // namespace troupe
