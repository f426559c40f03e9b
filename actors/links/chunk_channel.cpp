#include "actors/links/chunk_channel.hpp"

#include "actors/runtime/spawning.hpp"
#include "actors/runtime/unexpected.hpp"
#include "messages/transport/chunked/chunk_carrier.hpp"
#include "messages/transport/wire/path_terms.hpp"

#include <utility>
#include <vector>

namespace troupe {

namespace {

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
    : self_(self), parts_(std::move(parts)), carrier_([this](chunk&& piece) {
        self_->send(parts_.peer, chunk_atom_v, std::move(piece));
      }) {
    // What the carrier refuses ends this actor, too.
    on_unexpected(self_, [](const std::string&) {});
  }

  chunk_end_actor::behavior_type make_behavior() {
    // Tells the owner however this actor ends, since nothing else would.
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
        accept({frame_kind{kind}, id, header, {}}, shape);
      },
      [this](chunk_atom, const chunk& piece) { accept(piece); },
      [this](credit_atom, transfer_id id, uint64_t received) {
        carrier_.add_credit(id, received);
      },
      [this](frame_atom, const frame_ptr& frame) {
        if (parts_.peer)
          send(*frame);
        else
          waiting_.push_back(frame);
      },
      [this](detach_atom, const caf::error& why) { close(text_of(why)); },
    };
  }

private:
  void meet(const caf::strong_actor_ptr& other) {
    if (parts_.peer || !other)
      return close("the other end names itself twice, or nobody");
    parts_.peer = caf::actor_cast<chunk_end_actor>(other);
    self_->monitor(parts_.peer);
    for (const auto& what : std::exchange(waiting_, {}))
      send(*what);
  }

  // -- what is sent -----------------------------------------------------------

  void send(const frame& message) {
    const auto& [kind, request, header, tensor] = message;
    self_->send(parts_.peer, frame_atom_v, static_cast<uint8_t>(kind), request,
                header, tensor.shape());
    auto head = head_of(message, tensor.shape());
    if (tensor)
      carrier_.place(head, tensor);
  }

  // -- what arrives -----------------------------------------------------------

  // For a tensor of another shape, no bytes are expected and no memory is
  // allocated. The owner decides, when the tensor is complete, whether anybody
  // waits for it.
  void accept(frame message, const payload_shape& shape) {
    if (message.header.size() > transport::max_header_bytes)
      return close("a header is too long");
    if (!parts_.peer)
      return close("an unknown end sends frames");
    // If this is an answer, the tensor of our request is no longer read.
    carrier_.let_go(message.request.value);
    if (!transport::brings_tensor(message.kind) ||
        !parts_.terms.takes(message.kind, shape)) {
      message.tensor = payload{shape, nullptr, nullptr};
      return pass_on(std::move(message));
    }
    std::vector<transport::descriptor> no_files;
    message.tensor = carrier_.expect(head_of(message, shape), no_files).tensor;
    if (!carrier_.intercept(message))
      pass_on(std::move(message));
  }

  void accept(const chunk& piece) {
    auto progress = carrier_.accept(piece);
    if (!progress)
      return;
    self_->send(parts_.peer, credit_atom_v, piece.transfer, progress->received);
    if (progress->whole)
      pass_on(std::move(*progress->whole));
  }

  static transport::frame_head head_of(const frame& message,
                                       const payload_shape& shape) {
    transport::frame_head out;
    out.kind = message.kind;
    out.request = message.request;
    out.shape = shape;
    return out;
  }

  void pass_on(frame message) {
    self_->send(parts_.owner, frame_atom_v,
                frame_ptr{std::make_shared<const frame>(std::move(message))});
  }

  void close(const std::string& why) {
    self_->quit(caf::make_error(errc::peer_lost, why));
  }

  pointer self_;
  chunk_end_parts parts_;
  std::vector<frame_ptr> waiting_; ///< Until the other end is known.
  transport::chunk_carrier carrier_;
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

  void send(frame message) override {
    caf::anon_send(
      end_, frame_atom_v,
      frame_ptr{std::make_shared<const frame>(std::move(message))});
  }

  void close(const std::string& why) override {
    caf::anon_send(end_, detach_atom_v, caf::make_error(errc::peer_lost, why));
  }

private:
  chunk_end_parts parts_; ///< Until it is open.
  chunk_end_actor end_;
};

transport::path_terms terms_of(const payload_shape& expected,
                               const payload_shape& activations,
                               bool has_fragments) {
  transport::path_terms out{expected};
  out.most_activations = activations.count;
  out.has_fragments = has_fragments;
  return out;
}

} // namespace

frame_channel_ptr make_chunk_channel(payload_shape expected,
                                     gateway_actor gateway,
                                     payload_shape activations,
                                     bool has_fragments) {
  return std::make_shared<chunk_channel>(
    chunk_end_parts{terms_of(expected, activations, has_fragments),
                    std::move(gateway),
                    {},
                    {}});
}

frame_channel_ptr make_chunk_channel(payload_shape expected,
                                     chunk_end_actor peer,
                                     payload_shape activations,
                                     bool has_fragments) {
  return std::make_shared<chunk_channel>(chunk_end_parts{
    terms_of(expected, activations, has_fragments), {}, std::move(peer), {}});
}

} // namespace troupe
