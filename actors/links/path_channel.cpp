#include "actors/links/path_channel.hpp"

#include "actors/runtime/inline_execution.hpp"
#include "actors/runtime/spawning.hpp"
#include "actors/runtime/unexpected.hpp"

#include <chrono>
#include <memory>
#include <semaphore>
#include <utility>

namespace troupe {

namespace {

using transport::path_ptr;

/// How long the other end may wait for the news that tensors that it lent are
/// released, if no frame takes the news along.
constexpr auto let_go_delay = std::chrono::milliseconds(20);

/// Frames that were read and are not handled yet. With more, the other end has
/// to wait: it could fill the memory with those that need no answer.
constexpr ptrdiff_t most_unhandled = 64;

class path_reader_state {
public:
  using pointer = path_reader_actor::stateful_pointer<path_reader_state>;

  static constexpr const char* name = "troupe.path-reader";

  path_reader_state(pointer self, path_ptr way, path_end_actor owner)
    : self_(self), way_(std::move(way)), owner_(std::move(owner)) {
    on_unexpected(self_, [this](const std::string& line) {
      way_->close(line);
      tell_the_end();
    });
  }

  path_reader_actor::behavior_type make_behavior() {
    self_->send(self_, tick_atom_v);
    return {[this](tick_atom) {
      read();
    }};
  }

private:
  void read() {
    if (auto next = receive()) {
      tell(std::move(next));
      self_->send(self_, tick_atom_v);
      return;
    }
    tell_the_end();
    self_->quit();
  }

  void tell_the_end() {
    self_->send(owner_, detach_atom_v,
                caf::make_error(errc::peer_lost, way_->why_closed()));
  }

  // Waiting for the rest of a tensor would block this thread.
  void tell(frame_ptr next) {
    if (next->tensor.arriving())
      self_->send(owner_, frame_atom_v, std::move(next));
    else
      run_inline(self_->system(), [this, &next] {
        self_->send(owner_, frame_atom_v, std::move(next));
      });
  }

  frame_ptr receive() try {
    if (auto next = way_->receive()) {
      room_->acquire();
      return {new transport::frame{std::move(*next)},
              [room = room_](const transport::frame* handled) {
                delete handled;
                room->release();
              }};
    }
    return nullptr;
  } catch (const std::exception& err) {
    way_->close(err.what());
    return nullptr;
  }

  pointer self_;
  path_ptr way_;
  path_end_actor owner_;
  std::shared_ptr<std::counting_semaphore<>> room_ =
    std::make_shared<std::counting_semaphore<>>(most_unhandled);
};

class path_writer_state {
public:
  using pointer = path_writer_actor::stateful_pointer<path_writer_state>;

  static constexpr const char* name = "troupe.path-writer";

  path_writer_state(pointer, path_ptr way) : way_(std::move(way)) {
    // nop
  }

  path_writer_actor::behavior_type make_behavior() {
    return {[this](write_atom) {
      way_->write_rest();
    }};
  }

private:
  path_ptr way_;
};

class path_channel : public frame_channel {
public:
  explicit path_channel(path_ptr way) : way_(std::move(way)) {
    // nop
  }

  // Closing the path wakes the actor that waits on it.
  ~path_channel() override {
    way_->close("this end is gone");
    if (writer_)
      caf::anon_send_exit(writer_, caf::exit_reason::user_shutdown);
  }

  path_channel(const path_channel&) = delete;
  path_channel& operator=(const path_channel&) = delete;

  void open(caf::actor_system& system, const path_end_actor& owner) override {
    spawn<path_reader_actor, path_reader_state>(system, placement::detached,
                                                way_, owner);
    writer_ = spawn<path_writer_actor, path_writer_state>(
      system, placement::detached, way_);
    way_->on_waiting([weak = caf::actor_cast<caf::actor_addr>(writer_)] {
      if (auto there = caf::actor_cast<caf::strong_actor_ptr>(weak))
        caf::anon_send(caf::actor_cast<path_writer_actor>(there), write_atom_v);
    });
    // The last references to tensors may outlive the owner.
    way_->let_gos().on_entry([weak = caf::actor_cast<caf::actor_addr>(owner)] {
      if (auto there = caf::actor_cast<caf::strong_actor_ptr>(weak))
        caf::delayed_anon_send(caf::actor_cast<path_end_actor>(there),
                               let_go_delay, credit_atom_v);
    });
  }

  using frame_channel::send;

  void send(transport::frame message) override {
    call_writer(way_->send(message));
  }

  void send_let_gos() override { call_writer(way_->send_let_gos()); }

  void close(const std::string& why) override { way_->close(why); }

private:
  void call_writer(bool waits) {
    if (waits)
      caf::anon_send(writer_, write_atom_v);
  }

  path_ptr way_;
  path_writer_actor writer_;
};

} // namespace

frame_channel_ptr make_path_channel(path_ptr way) {
  return std::make_shared<path_channel>(std::move(way));
}

} // namespace troupe
