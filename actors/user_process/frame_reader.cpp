#include "actors/user_process/frame_reader.hpp"

#include "actors/runtime/inline_execution.hpp"
#include "actors/runtime/run_clock.hpp"
#include "actors/runtime/spawning.hpp"
#include "actors/runtime/unexpected.hpp"

#include <string>
#include <utility>

namespace troupe {

namespace {

class frame_reader_state {
public:
  using pointer = path_reader_actor::stateful_pointer<frame_reader_state>;

  static constexpr const char* name = "troupe.frame-reader";

  frame_reader_state(pointer self, external::process_line_ptr line,
                     frame_owner_actor owner)
    : self_(self), line_(std::move(line)), owner_(std::move(owner)),
      since_look_(self) {
    on_unexpected(self_, [this](const std::string& why) {
      self_->send(owner_, detach_atom_v, caf::make_error(errc::failed, why));
    });
  }

  path_reader_actor::behavior_type make_behavior() {
    self_->send(self_, tick_atom_v);
    return {[this](tick_atom) {
      read();
      look();
    }};
  }

private:
  static constexpr double between_looks = 0.5; ///< s

  // Frames that come all the time must not keep the owner from looking.
  void look() {
    if (since_look_.elapsed(self_) < between_looks)
      return;
    since_look_ = run_clock{self_};
    self_->send(owner_, tick_atom_v);
  }

  void read() {
    if (!line_->wait_for(between_looks)) {
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
  run_clock since_look_;
};

class process_watch_state {
public:
  using pointer = path_reader_actor::stateful_pointer<process_watch_state>;

  static constexpr const char* name = "troupe.process-watch";

  process_watch_state(pointer self, external::process_line_ptr line,
                      session_client_actor session,
                      std::shared_ptr<const std::atomic<bool>> begun)
    : self_(self), line_(std::move(line)), session_(std::move(session)),
      begun_(std::move(begun)) {
    on_unexpected(self_, [](const std::string&) {});
  }

  path_reader_actor::behavior_type make_behavior() {
    self_->monitor(session_);
    self_->set_down_handler([this](const caf::down_msg&) { self_->quit(); });
    self_->send(self_, tick_atom_v);
    return {[this](tick_atom) {
      look();
    }};
  }

private:
  static constexpr double between_looks = 0.2; ///< s

  void look() {
    auto ended = line_->ends_within(between_looks);
    if (begun_->load())
      return self_->quit();
    if (!ended)
      return self_->send(self_, tick_atom_v);
    self_->send(session_, ended_atom_v,
                run_end{1, "process " + std::to_string(line_->pid()) +
                             ", which computes for this node, has ended"});
    self_->quit();
  }

  pointer self_;
  external::process_line_ptr line_;
  session_client_actor session_;
  std::shared_ptr<const std::atomic<bool>> begun_;
};

} // namespace

void watch_process(caf::actor_system& system, external::process_line_ptr line,
                   session_client_actor session,
                   std::shared_ptr<const std::atomic<bool>> begun) {
  spawn<path_reader_actor, process_watch_state>(
    system, placement::detached, std::move(line), std::move(session),
    std::move(begun));
}

void read_frames(caf::actor_system& system, external::process_line_ptr line,
                 frame_owner_actor owner) {
  spawn<path_reader_actor, frame_reader_state>(
    system, placement::detached, std::move(line), std::move(owner));
}

} // namespace troupe
