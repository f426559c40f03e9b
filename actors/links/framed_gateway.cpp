#include "actors/links/framed_gateway.hpp"

#include "actors/links/module_frames.hpp"
#include "actors/runtime/run_is_over.hpp"
#include "messages/protocol.hpp"

#include <utility>

namespace troupe {

using transport::frame_kind;
using transport::path_error;
using transport::read_header;

framed_gateway_state::framed_gateway_state(pointer self,
                                           framed_gateway_parts parts)
  : self_(self), server_(std::move(parts.server)),
    make_modules_(std::move(parts.modules)), gateway_(std::move(parts.gateway)),
    channel_(std::move(parts.channel)), unpacker_(std::move(parts.codec)) {
  // nop
}

framed_gateway_state::~framed_gateway_state() {
  if (modules_)
    caf::anon_send_exit(modules_, caf::exit_reason::user_shutdown);
}

path_end_actor::behavior_type framed_gateway_state::make_behavior() {
  self_->monitor(gateway_);
  self_->set_down_handler([this](const caf::down_msg& down) {
    // Modules that end because the server has finished say so in their answers,
    // so this actor stays to send them.
    if (down.source == gateway_.address())
      self_->quit();
    else if (down.reason != caf::exit_reason::user_shutdown)
      self_->quit(down.reason);
  });
  channel_->open(self_->system(), path_end_actor{self_});
  return {
    [this](frame_atom, const frame_ptr& frame) { handle_frame(*frame); },
    [this](detach_atom, const caf::error& why) { self_->quit(why); },
    [this](credit_atom) { channel_->send_let_gos(); },
  };
}

// -- requests -----------------------------------------------------------------

void framed_gateway_state::handle_frame(const transport::frame& message) try {
  switch (message.kind) {
  case frame_kind::push:
  case frame_kind::offer:
    return push(message);
  case frame_kind::pull:
    return ask<release_header>(door(), frame_kind::release, message.request,
                               pull_atom_v,
                               read_header<pull_header>(message.header));
  case frame_kind::forward:
  case frame_kind::backward: {
    auto call = to_call(read_header<transport::pass_header>(message.header),
                        message.tensor);
    if (message.kind == frame_kind::forward)
      return ask_modules(message.request, forward_atom_v, std::move(call));
    return ask_modules(message.request, backward_atom_v, std::move(call));
  }
  case frame_kind::read:
    return ask_modules(message.request, fetch_atom_v,
                       read_header<context_part>(message.header));
  case frame_kind::cancel:
    if (modules_)
      self_->send(modules_, cancel_atom_v,
                  read_header<lease_id>(message.header));
    return;
  case frame_kind::watch:
    return ask<watch_header>(server_, frame_kind::due, message.request,
                             watch_atom_v,
                             read_header<watch_request>(message.header));
  case frame_kind::score:
    return self_->send(server_, score_atom_v,
                       read_header<score>(message.header));
  case frame_kind::let_go:
    return;
  default:
    throw path_error{"a peer answers what it was not asked"};
  }
} catch (const std::exception& err) {
  self_->quit(
    caf::make_error(errc::protocol_violation, std::string{err.what()}));
}

// A gradient of another size than the model's comes without its bytes; the
// server refuses it.
void framed_gateway_state::push(const transport::frame& message) {
  auto offered = message.kind == frame_kind::offer;
  ask<release_header>(door(), frame_kind::release, message.request, push_atom_v,
                      read_header<push_header>(message.header),
                      offered ? message.tensor
                              : unpacker_.unpack(message.tensor, fragment_));
}

// Only workers pull and push: evaluators need no modules.
const parameter_server_actor& framed_gateway_state::door() {
  if (make_modules_ && !modules_) {
    modules_ = make_modules_();
    self_->monitor(modules_);
    door_ = parameter_server_actor{modules_};
  }
  return door_ ? door_ : server_;
}

template <class... Ts>
void framed_gateway_state::ask_modules(transfer_id id, Ts&&... request) {
  if (!modules_)
    throw path_error{"a peer calls modules that are not here"};
  take_request();
  self_->request(modules_, caf::infinite, std::forward<Ts>(request)...)
    .then(
      [this, id](const module_answer& answer) {
        --open_;
        auto [header, tensor] = to_frame(answer);
        channel_->send(frame_kind::passed, id, header, std::move(tensor));
      },
      [this, id](const caf::error& why) { refuse(id, why); });
}

void framed_gateway_state::take_request() {
  if (open_ == max_pushes_in_flight)
    throw path_error{"too many requests at a time"};
  ++open_;
}

// The policy decides how long the answer takes.
template <class Header, class... Ts>
void framed_gateway_state::ask(const parameter_server_actor& whom,
                               frame_kind answer, transfer_id id,
                               const Ts&... request) {
  take_request();
  self_->request(whom, caf::infinite, request...)
    .then(
      [this, answer, id](const Header& header, const payload& weights) {
        --open_;
        note(header);
        channel_->send(weights.is_absent() ? frame_kind::gathered : answer, id,
                       header, weights);
      },
      [this, id](const caf::error& why) { refuse(id, why); });
}

// A server that has ended is at the end of its run: had it died, the connection
// would have broken, too.
void framed_gateway_state::refuse(transfer_id id, const caf::error& why) {
  --open_;
  auto over =
    why == caf::sec::request_receiver_down || why == caf::sec::broken_promise;
  auto told = over ? run_is_over() : why;
  transport::refusal no{errc::failed, text_of(told)};
  if (told.category() == caf::type_id_v<errc>)
    no.code = static_cast<errc>(told.code());
  channel_->send(frame_kind::refusal, id, no);
}

} // namespace troupe
