#include "messages/transport/nccl/collective_carrier.hpp"

#include "messages/finite.hpp"
#include "messages/types.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace troupe::transport {

// -- a worker's end -----------------------------------------------------------

collective_carrier::collective_carrier(frame_line& line,
                                       const path_terms& terms, nccl_terms with)
  : line_(line), stream_(line, terms), gradient_(terms.expected),
    transfers_(std::move(with), terms.expected) {
  // nop
}

/// Offers gradients only where a sum can succeed: one that is not finite is
/// sent, so that it alone is refused. Offers one at a time, since a synchronous
/// worker has no more.
bool collective_carrier::keep_back(const frame& message) {
  if (message.kind != frame_kind::push)
    return false;
  auto shape = message.tensor.shape();
  auto comes = false;
  auto offers = false;
  {
    std::lock_guard guard{mutex_};
    comes = !std::exchange(attends_, true);
    offers = open_ && !offered_ && transfer_->takes(shape);
  }
  offers = offers && all_finite(message.tensor);
  if (offers) {
    std::lock_guard guard{mutex_};
    offered_ = message;
  }
  if (comes) {
    auto worker = read_header<push_header>(message.header).id.worker;
    line_.send_now(
      {frame_kind::meet, {}, write_header(collective_attendance{worker}), {}});
  }
  if (offers)
    line_.send_now({frame_kind::offer, message.request, message.header,
                    payload{shape, nullptr, nullptr}});
  return offers;
}

bool collective_carrier::intercept(frame& received) {
  switch (received.kind) {
  case frame_kind::collective_call:
    accept_call(read_header<collective_call>(received.header));
    return true;
  case frame_kind::collective_open:
    open(read_header<collective_open>(received.header));
    return true;
  case frame_kind::collective_over:
    end(read_header<collective_over>(received.header));
    return true;
  case frame_kind::give:
    give(received.request, read_header<collective_give>(received.header));
    return true;
  case frame_kind::fetch:
    send_offered(received.request);
    return true;
  case frame_kind::release:
    forget_offered(received.request);
    if (!std::exchange(heard_, false))
      return false;
    hear(received);
    return true;
  case frame_kind::refusal:
    forget_offered(received.request);
    return false;
  default:
    return stream_.intercept(received);
  }
}

// -- gradients

void collective_carrier::give(transfer_id request,
                              const collective_give& order) {
  nccl_transfer_ptr to;
  payload gradient;
  {
    std::lock_guard guard{mutex_};
    if (!offered_ || offered_->request != request)
      throw path_error{"a gradient is wanted that was not offered"};
    if (open_ && number_ == order.number) {
      to = transfer_;
      gradient = offered_->tensor;
    }
  }
  // Without a transfer the server knows, or will be told, that this end is
  // over.
  if (to)
    to->give(std::move(gradient), order.scale, {});
  line_.wake();
}

void collective_carrier::send_offered(transfer_id request) {
  std::optional<frame> push;
  {
    std::lock_guard guard{mutex_};
    push = std::exchange(offered_, std::nullopt);
  }
  if (!push || push->request != request)
    throw path_error{"a gradient is fetched that was not offered"};
  line_.send_now(*push);
}

/// The server has answered this push, so its gradient is no longer needed.
void collective_carrier::forget_offered(transfer_id request) {
  std::optional<frame> gone; // Let go of after the lock.
  std::lock_guard guard{mutex_};
  if (offered_ && offered_->request == request)
    gone = std::exchange(offered_, std::nullopt);
}

// -- weights

incoming_tensor collective_carrier::expect(const frame_head& head,
                                           std::vector<descriptor>& files) {
  if (head.carried != carriage::device || head.kind == frame_kind::piece)
    return stream_.expect(head, files);
  heard_ = true;
  auto memory = stream_.take_memory();
  auto* data = memory.get();
  return {payload{head.shape, std::move(memory), data}, {}, 0, false};
}

void collective_carrier::hear(frame& release) {
  nccl_transfer_ptr from;
  {
    std::lock_guard guard{mutex_};
    from = transfer_;
  }
  frame again{frame_kind::again, release.request, {}, {}};
  if (!from)
    return line_.send_now(again);
  auto bytes = release.tensor.host_bytes();
  std::span target{const_cast<std::byte*>(bytes.data()), bytes.size()};
  auto type = release.tensor.shape().type;
  auto kept = std::make_shared<frame>(std::move(release));
  from->hear(target, type, [&line = line_, kept, again](bool there) {
    if (there)
      line.hand_in(std::move(*kept));
    else
      line.send_now(again);
  });
  line_.wake();
}

// -- communicators

void collective_carrier::accept_call(const collective_call& call) {
  {
    std::lock_guard guard{mutex_};
    called_ = call;
  }
  answer({call.number, collective_stage::accepted, {}});
  line_.wake();
}

void collective_carrier::open(const collective_open& news) {
  std::lock_guard guard{mutex_};
  open_ = transfer_ && number_ == news.number;
}

void collective_carrier::end(const collective_over& news) {
  {
    std::lock_guard guard{mutex_};
    if (called_ && called_->number == news.number)
      called_.reset();
    if (number_ == news.number)
      drop_transfer();
  }
  line_.wake();
}

/// Leaves the transfer to the polling thread, which stops it.
void collective_carrier::drop_transfer() {
  open_ = ready_ = false;
  transfers_.drop(std::exchange(transfer_, nullptr), "the membership is over");
}

void collective_carrier::answer(const collective_answer& news) {
  line_.send_now({frame_kind::collective_answer, {}, write_header(news), {}});
}

/// The newest NCCL transfer. If the server has called, begins it first.
nccl_transfer_ptr collective_carrier::begin_called(double now) {
  std::lock_guard guard{mutex_};
  if (auto call = std::exchange(called_, std::nullopt)) {
    drop_transfer();
    number_ = call->number;
    transfer_ = transfers_.begin(call->id, static_cast<int>(call->rank),
                                 static_cast<int>(call->size), now);
  }
  return transfer_;
}

std::optional<double> collective_carrier::poll(double now) {
  auto closed = line_.is_closed();
  if (closed) {
    std::lock_guard guard{mutex_};
    called_.reset();
    drop_transfer();
  }
  auto next = std::numeric_limits<double>::infinity();
  if (auto newest = closed ? nullptr : begin_called(now))
    next = poll_newest(newest, now) ? nccl::pace : nccl::idle_pace;
  if (transfers_.end_dropped(now))
    return std::min(next, nccl::slow_pace);
  return closed ? std::nullopt : std::optional{next};
}

/// Returns whether there is something to wait for. Tells the server when the
/// transfer is ready or broken.
bool collective_carrier::poll_newest(const nccl_transfer_ptr& newest,
                                     double now) {
  auto busy = newest->poll(now);
  auto why = newest->failure();
  auto ready = newest->takes(gradient_);
  std::optional<collective_answer> news;
  {
    std::lock_guard guard{mutex_};
    if (transfer_ != newest)
      return true; // It is over by now.
    if (!why.empty()) {
      news = collective_answer{number_, collective_stage::broken, why};
      drop_transfer();
    } else if (ready && !std::exchange(ready_, true)) {
      news = collective_answer{number_, collective_stage::ready, {}};
    }
  }
  if (news)
    answer(*news);
  return busy;
}

// -- the server's end ---------------------------------------------------------

seat_carrier::seat_carrier(frame_line& line, const path_terms& terms,
                           collective_coordinator_ptr root)
  : line_(line), stream_(line, terms), root_(std::move(root)) {
  // nop
}

seat_carrier::~seat_carrier() {
  root_->leave(line_);
}

std::optional<double> seat_carrier::poll(double) {
  return root_->poll(line_, line_.is_closed());
}

bool seat_carrier::keep_back(const frame& message) {
  return (message.kind == frame_kind::release ||
          message.kind == frame_kind::refusal) &&
         root_->keeps(line_, message);
}

bool seat_carrier::intercept(frame& received) {
  const auto& [kind, request, header, tensor] = received;
  switch (kind) {
  case frame_kind::meet:
    root_->enter(line_, read_header<collective_attendance>(header));
    return true;
  case frame_kind::collective_answer:
    root_->answered(line_, read_header<collective_answer>(header));
    return true;
  case frame_kind::offer: {
    auto push = read_header<push_header>(header);
    root_->offered(line_,
                   {request, push.id, header, tensor.shape(), push.samples});
    return true;
  }
  case frame_kind::again:
    root_->again(line_, request);
    return true;
  case frame_kind::push:
    root_->asked(line_, read_header<push_header>(header).id.life);
    return false;
  case frame_kind::pull:
    root_->asked(line_);
    return false;
  default:
    return stream_.intercept(received);
  }
}

} // namespace troupe::transport
