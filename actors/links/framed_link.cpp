#include "actors/links/framed_link.hpp"

#include "actors/links/module_frames.hpp"
#include "actors/runtime/run_clock.hpp"

#include <utility>

namespace troupe {

using transport::frame_kind;

framed_link_state::framed_link_state(pointer self, gateway_actor gateway,
                                     frame_channel_ptr channel,
                                     payload_shape expected)
  : self_(self), gateway_(std::move(gateway)), channel_(std::move(channel)),
    expected_(expected) {
  // nop
}

framed_link_actor::behavior_type framed_link_state::make_behavior() {
  self_->monitor(gateway_);
  self_->set_down_handler([this](const caf::down_msg& down) {
    break_off(
      caf::make_error(errc::peer_lost,
                      std::string{"connection to the parameter server lost"}),
      down.reason);
  });
  channel_->open(self_->system(), path_end_actor{framed_link_actor{self_}});
  return {
    [this](push_atom, const push_header& header, const payload& gradient) {
      return push(header, gradient);
    },
    [this](pull_atom, const pull_header& header) { return pull(header); },
    [this](watch_atom, const watch_request& request) { return watch(request); },
    [this](score_atom, const score& found) {
      channel_->send(frame_kind::score, {}, found);
    },
    [this](forward_atom, const module_call& call) {
      return pass(frame_kind::forward, call);
    },
    [this](backward_atom, const module_call& call) {
      return pass(frame_kind::backward, call);
    },
    [this](cancel_atom, lease_id which) {
      channel_->send(frame_kind::cancel, {}, which);
    },
    [this](fetch_atom, const context_part& part) {
      auto answer = self_->make_response_promise<module_answer>();
      channel_->send(frame_kind::read, open_.add(answer), part);
      return answer;
    },
    [this](frame_atom, const frame_ptr& frame) { handle_frame(*frame); },
    [this](detach_atom, const caf::error& why) { closed(why); },
    [this](credit_atom) { channel_->send_let_gos(); },
  };
}

// -- requests -----------------------------------------------------------------

caf::result<release_header, payload>
framed_link_state::push(const push_header& header, const payload& gradient) {
  auto answer = self_->make_response_promise<release_header, payload>();
  auto offered = gradient.is_absent() && gradient.shape() == expected_;
  channel_->send(offered ? frame_kind::offer : frame_kind::push,
                 open_.add(answer), header, gradient);
  return answer;
}

caf::result<release_header, payload>
framed_link_state::pull(const pull_header& header) {
  auto answer = self_->make_response_promise<release_header, payload>();
  channel_->send(frame_kind::pull, open_.add(answer), header);
  return answer;
}

caf::result<watch_header, payload>
framed_link_state::watch(const watch_request& request) {
  auto answer = self_->make_response_promise<watch_header, payload>();
  channel_->send(frame_kind::watch, open_.add(answer), request);
  return answer;
}

caf::result<module_answer> framed_link_state::pass(frame_kind kind,
                                                   const module_call& call) {
  auto answer = self_->make_response_promise<module_answer>();
  auto [header, tensor] = to_frame(call);
  channel_->send(kind, open_.add(answer), header, std::move(tensor));
  return answer;
}

// -- answers ------------------------------------------------------------------

void framed_link_state::handle_frame(const transport::frame& message) try {
  switch (message.kind) {
  case frame_kind::release:
  case frame_kind::gathered:
    return answer<release_header>(message);
  case frame_kind::due:
    return answer<watch_header>(message);
  case frame_kind::passed:
    return passed(message);
  case frame_kind::refusal: {
    auto no = transport::read_header<transport::refusal>(message.header);
    return open_.refuse(message.request,
                        caf::make_error(no.code, std::move(no.text)));
  }
  case frame_kind::let_go:
    return;
  default:
    throw transport::path_error{"the parameter server sent a request"};
  }
} catch (const std::exception& err) {
  channel_->close(err.what());
}

namespace {

bool has_shape(const watch_header&, const payload_shape& shape,
               const payload_shape& whole) {
  return shape == whole;
}

// Whoever has the other fragments knows how large this one must be.
bool has_shape(const release_header& header, const payload_shape& shape,
               const payload_shape& whole) {
  return header.goes_on ? shape.type == whole.type && shape.count <= whole.count
                        : shape == whole;
}

} // namespace

template <class Header>
void framed_link_state::answer(const transport::frame& message) {
  auto header = transport::read_header<Header>(message.header);
  auto gathered = message.kind == frame_kind::gathered;
  if (!open_.waits_for(message.request, header) ||
      gathered != message.tensor.is_absent() ||
      !has_shape(header, message.tensor.shape(), expected_))
    throw transport::path_error{
      "the parameter server sent weights of another size"};
  open_.answer(message.request, header, message.tensor);
}

void framed_link_state::passed(const transport::frame& message) {
  if (!open_.waits_for_module(message.request))
    throw transport::path_error{"the parameter server answers what it was not "
                                "asked"};
  open_.answer(
    message.request,
    to_answer(transport::read_header<transport::passed_header>(message.header),
              message.tensor));
}

// -- the end ------------------------------------------------------------------

// The actor connection, which may be slower, brings the end of the run, and the
// news that the whole connection is lost.
void framed_link_state::closed(const caf::error& why) {
  self_->run_delayed(to_timespan(benefit_of_doubt),
                     [this, why] { break_off(why, why); });
}

void framed_link_state::break_off(const caf::error& why,
                                  const caf::error& reason) {
  open_.refuse_all(why);
  self_->quit(reason);
}

} // namespace troupe
