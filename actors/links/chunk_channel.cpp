#include "actors/links/chunk_channel.hpp"

#include "actors/links/outgoing.hpp"
#include "actors/runtime/spawning.hpp"
#include "actors/runtime/unexpected.hpp"
#include "messages/protocol.hpp"
#include "messages/transport/wire/path.hpp"

#include <map>
#include <utility>
#include <vector>

namespace troupe {

namespace {

using transport::chunk_receiver;
using transport::frame;
using transport::frame_kind;

struct chunk_end_parts {
  transport::path_terms terms; ///< What tensors may arrive.
  gateway_actor gateway; ///< Makes the other end; null where `peer` is known.
  chunk_end_actor peer;
  path_end_actor owner;
};

class chunk_end_state {
public:
  using pointer = chunk_end_actor::stateful_pointer<chunk_end_state>;

  static constexpr const char* name = "troupe.chunk-end";

  chunk_end_state(pointer self, chunk_end_parts parts)
    : self_(self), parts_(std::move(parts)) {
    on_unexpected(self_, [](const std::string&) {});
  }

  chunk_end_actor::behavior_type make_behavior() {
    // However this actor ends: nothing else would tell the owner.
    self_->attach_functor([owner = parts_.owner](const caf::error& why) {
      caf::anon_send(owner, detach_atom_v,
                     caf::make_error(errc::peer_lost, text_of(why)));
    });
    self_->monitor(parts_.owner);
    self_->set_down_handler([this](const caf::down_msg& down) {
      if (down.source == parts_.owner.address())
        self_->quit();
      else
        close("the connection is lost");
    });
    if (parts_.gateway) {
      self_->send(parts_.gateway, attach_atom_v, chunk_end_actor{self_});
    } else {
      self_->monitor(parts_.peer);
      self_->send(parts_.peer, attach_atom_v,
                  caf::actor_cast<caf::strong_actor_ptr>(self_));
    }
    return {
      [this](attach_atom, const caf::strong_actor_ptr& other) { meet(other); },
      [this](frame_atom, uint8_t kind, transfer_id id,
             const caf::byte_buffer& header, const payload_shape& shape) {
        expect({frame_kind{kind}, id, header, {}}, shape);
      },
      [this](chunk_atom, const chunk& piece) { take(piece); },
      [this](credit_atom, transfer_id id, uint64_t received) {
        credit(id, received);
      },
      [this](frame_atom, const frame_ptr& what) {
        if (parts_.peer)
          send(*what);
        else
          waiting_.push_back(what);
      },
      [this](detach_atom, const caf::error& why) { close(text_of(why)); },
    };
  }

private:
  /// A frame whose tensor is being received.
  struct arrival {
    frame what;
    chunk_receiver tensor;
  };

  void meet(const caf::strong_actor_ptr& other) {
    if (parts_.peer || !other)
      return close("the other end names itself twice, or nobody");
    parts_.peer = caf::actor_cast<chunk_end_actor>(other);
    self_->monitor(parts_.peer);
    for (const auto& what : std::exchange(waiting_, {}))
      send(*what);
  }

  // -- what is sent -----------------------------------------------------------

  auto to_peer() {
    return [this](chunk&& piece) {
      self_->send(parts_.peer, chunk_atom_v, std::move(piece));
    };
  }

  void send(const frame& what) {
    self_->send(parts_.peer, frame_atom_v, static_cast<uint8_t>(what.kind),
                what.request, what.header, what.tensor.shape());
    if (what.tensor && leaving_.size() == max_pushes_in_flight)
      return close("the other end does not take what is sent");
    leaving_.begin(what.request, what.tensor, to_peer());
  }

  void credit(transfer_id id, uint64_t received) {
    if (!leaving_.credit(id, received, to_peer()))
      close("the other end has received what was not sent");
  }

  // -- what arrives -----------------------------------------------------------

  // Of a tensor of another shape no bytes are expected, and no memory is
  // allocated for it. Whether anybody waits for the tensor, the owner decides
  // when it is complete.
  void expect(frame what, const payload_shape& shape) {
    if (what.header.size() > transport::max_header_bytes)
      return close("a header is too long");
    if (!parts_.peer)
      return close("an unknown end sends frames");
    leaving_.forget(what.request); // An answer: our tensor is no longer read.
    if (!parts_.terms.takes(what.kind, shape)) {
      what.tensor = payload{shape, nullptr, nullptr};
      return pass_on(std::move(what));
    }
    if (shape.count > 0 && arriving_.size() == max_pushes_in_flight)
      return close("too many tensors at a time");
    arrival next{std::move(what), chunk_receiver{shape}};
    if (next.tensor.complete()) // Empty: no piece will come.
      return finish(std::move(next));
    auto id = next.what.request;
    if (!arriving_.emplace(id, std::move(next)).second)
      close("two tensors have the same number");
  }

  void take(const chunk& piece) {
    auto found = arriving_.find(piece.transfer);
    if (found == arriving_.end()) // Not announced, or of another shape.
      return;
    auto& tensor = found->second.tensor;
    if (!tensor.accept(piece))
      return close("a piece is out of place");
    self_->send(parts_.peer, credit_atom_v, piece.transfer, tensor.received());
    if (tensor.complete())
      finish(std::move(arriving_.extract(found).mapped()));
  }

  void finish(arrival done) {
    done.what.tensor = std::move(done.tensor).take();
    pass_on(std::move(done.what));
  }

  void pass_on(frame what) {
    self_->send(parts_.owner, frame_atom_v,
                frame_ptr{std::make_shared<const frame>(std::move(what))});
  }

  void close(const std::string& why) {
    self_->quit(caf::make_error(errc::peer_lost, why));
  }

  pointer self_;
  chunk_end_parts parts_;
  std::vector<frame_ptr> waiting_; ///< Until the other end is known.
  outgoing_payloads leaving_;
  std::map<transfer_id, arrival> arriving_;
};

class chunk_channel : public frame_channel {
public:
  explicit chunk_channel(chunk_end_parts parts) : parts_(std::move(parts)) {
    // nop
  }

  ~chunk_channel() override {
    if (end_)
      caf::anon_send_exit(end_, caf::exit_reason::user_shutdown);
  }

  chunk_channel(const chunk_channel&) = delete;
  chunk_channel& operator=(const chunk_channel&) = delete;

  void open(caf::actor_system& system, const path_end_actor& owner) override {
    parts_.owner = owner;
    end_ = spawn<chunk_end_actor, chunk_end_state>(system, placement::scheduled,
                                                   std::exchange(parts_, {}));
  }

  using frame_channel::send;

  void send(frame what) override {
    caf::anon_send(end_, frame_atom_v,
                   frame_ptr{std::make_shared<const frame>(std::move(what))});
  }

  void close(const std::string& why) override {
    caf::anon_send(end_, detach_atom_v, caf::make_error(errc::peer_lost, why));
  }

private:
  chunk_end_parts parts_; ///< Until it is open.
  chunk_end_actor end_;
};

transport::path_terms terms_of(const payload_shape& expected,
                               const payload_shape& activations) {
  transport::path_terms out{expected};
  out.most_activations = activations.count;
  return out;
}

} // namespace

frame_channel_ptr make_chunk_channel(payload_shape expected,
                                     gateway_actor gateway,
                                     payload_shape activations) {
  return std::make_shared<chunk_channel>(chunk_end_parts{
    terms_of(expected, activations), std::move(gateway), {}, {}});
}

frame_channel_ptr make_chunk_channel(payload_shape expected,
                                     chunk_end_actor peer,
                                     payload_shape activations) {
  return std::make_shared<chunk_channel>(
    chunk_end_parts{terms_of(expected, activations), {}, std::move(peer), {}});
}

} // namespace troupe
