#include "actors/external/frame_reader.hpp"

#include "actors/runtime/inline_execution.hpp"
#include "actors/runtime/spawning.hpp"
#include "actors/runtime/unexpected.hpp"

#include <utility>

namespace troupe {

namespace {

class frame_reader_state {
public:
  using pointer = path_reader_actor::stateful_pointer<frame_reader_state>;

  static constexpr const char* name = "troupe.frame-reader";

  frame_reader_state(pointer self, external::process_line_ptr line,
                     frame_owner_actor owner)
    : self_(self), line_(std::move(line)), owner_(std::move(owner)) {
    on_unexpected(self_, [this](const std::string& why) {
      self_->send(owner_, detach_atom_v, caf::make_error(errc::failed, why));
    });
  }

  path_reader_actor::behavior_type make_behavior() {
    self_->send(self_, tick_atom_v);
    return {[this](tick_atom) {
      read();
    }};
  }

private:
  static constexpr double between_looks = 0.5; ///< s without a frame.

  void read() {
    if (!line_->wait_for(between_looks)) {
      self_->send(owner_, tick_atom_v);
      self_->send(self_, tick_atom_v);
      return;
    }
    if (auto next = line_->receive()) {
      run_inline(self_->system(), [this, &next] {
        self_->send(owner_, frame_atom_v, static_cast<uint32_t>(next->kind),
                    next->number, std::move(next->body));
      });
      self_->send(self_, tick_atom_v);
      return;
    }
    self_->send(owner_, detach_atom_v,
                caf::make_error(errc::peer_lost, line_->why_closed()));
    self_->quit();
  }

  pointer self_;
  external::process_line_ptr line_;
  frame_owner_actor owner_;
};

} // namespace

void read_frames(caf::actor_system& system, external::process_line_ptr line,
                 frame_owner_actor owner) {
  spawn<path_reader_actor, frame_reader_state>(
    system, placement::detached, std::move(line), std::move(owner));
}

} // namespace troupe
