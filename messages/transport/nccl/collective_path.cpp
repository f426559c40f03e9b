#include "messages/transport/nccl/collective_path.hpp"

#include "messages/finite.hpp"
#include "messages/types.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace troupe::transport {

// -- a worker's end -----------------------------------------------------------

collective_path::collective_path(socket line, const path_terms& terms,
                                 nccl_terms with)
  : stream_path(std::move(line), terms), with_(std::move(with)) {
  // nop
}

// Callbacks about the failure run now, while all members still exist.
collective_path::~collective_path() {
  called_.reset();
  transfer_.reset();
  ending_.clear();
}

/// Gradients are offered only where that can succeed: one that is not finite is
/// sent, so that it alone is refused. Only one at a time: a synchronous worker
/// has no more.
bool collective_path::keeps(frame_kind kind, transfer_id request,
                            const caf::byte_buffer& header,
                            const payload& tensor) {
  if (kind != frame_kind::push)
    return false;
  auto comes = false;
  auto offers = false;
  {
    std::lock_guard guard{mutex_};
    comes = !std::exchange(attends_, true);
    offers = open_ && !offered_ && transfer_->takes(tensor.shape());
  }
  offers = offers && all_finite(tensor);
  if (offers) {
    std::lock_guard guard{mutex_};
    offered_ = offered{request, header, tensor};
  }
  if (comes) {
    auto who = read_header<push_header>(header).id.worker;
    send_now(frame_kind::meet, {}, write_header(collective_attendance{who}),
             {});
  }
  if (offers)
    send_now(frame_kind::offer, request, header,
             payload{tensor.shape(), nullptr, nullptr});
  return offers;
}

bool collective_path::takes(frame& what) {
  switch (what.kind) {
  case frame_kind::collective_call:
    called(read_header<collective_call>(what.header));
    return true;
  case frame_kind::collective_open:
    opened(read_header<collective_open>(what.header));
    return true;
  case frame_kind::collective_over:
    over(read_header<collective_over>(what.header));
    return true;
  case frame_kind::give:
    give(what.request, read_header<collective_give>(what.header));
    return true;
  case frame_kind::fetch:
    fetched(what.request);
    return true;
  case frame_kind::release:
    settled(what.request);
    if (!std::exchange(heard_, false))
      return false;
    hear(what);
    return true;
  case frame_kind::refusal:
    settled(what.request);
    return false;
  default:
    return false;
  }
}

// -- gradients

void collective_path::give(transfer_id request, const collective_give& what) {
  nccl_transfer_ptr to;
  payload gradient;
  {
    std::lock_guard guard{mutex_};
    if (!offered_ || offered_->request != request)
      throw path_error{"a gradient is wanted that was not offered"};
    if (open_ && number_ == what.number) {
      to = transfer_;
      gradient = offered_->gradient;
    }
  }
  // Otherwise the server is told that this end is over, or already knows.
  if (to)
    to->give(std::move(gradient), what.scale, {});
  work();
}

void collective_path::fetched(transfer_id request) {
  std::optional<offered> what;
  {
    std::lock_guard guard{mutex_};
    what = std::exchange(offered_, std::nullopt);
  }
  if (!what || what->request != request)
    throw path_error{"a gradient is fetched that was not offered"};
  send_now(frame_kind::push, what->request, what->header, what->gradient);
}

/// Its answer is here.
void collective_path::settled(transfer_id request) {
  std::optional<offered> gone; // Let go of after the lock.
  std::lock_guard guard{mutex_};
  if (offered_ && offered_->request == request)
    gone = std::exchange(offered_, std::nullopt);
}

// -- weights

payload collective_path::expect(const frame_head& head,
                                std::vector<descriptor>& passed,
                                incoming& follows) {
  if (head.carried != carriage::device)
    return stream_path::expect(head, passed, follows);
  heard_ = true;
  auto memory = take_memory();
  auto* data = memory.get();
  return {head.shape, std::move(memory), data};
}

bool collective_path::hands_out_early(const frame_head& head) const {
  return head.carried == carriage::follows &&
         stream_path::hands_out_early(head);
}

void collective_path::hear(frame& what) {
  nccl_transfer_ptr from;
  {
    std::lock_guard guard{mutex_};
    from = transfer_;
  }
  auto request = what.request;
  auto bytes = what.tensor.bytes();
  std::span target{const_cast<std::byte*>(bytes.data()), bytes.size()};
  auto type = what.tensor.shape().type;
  auto done = [this,
               it = std::make_shared<frame>(std::move(what))](bool there) {
    if (there)
      hand_in(std::move(*it));
    else
      send_now(frame_kind::again, it->request, {}, {});
  };
  if (!from)
    return send_now(frame_kind::again, request, {}, {});
  from->hear(target, type, std::move(done));
  work();
}

// -- communicators

void collective_path::called(const collective_call& to) {
  {
    std::lock_guard guard{mutex_};
    called_ = to;
  }
  answer({to.number, collective_stage::accepted, {}});
  work();
}

void collective_path::opened(const collective_open& what) {
  std::lock_guard guard{mutex_};
  open_ = transfer_ && number_ == what.number;
}

void collective_path::over(const collective_over& what) {
  {
    std::lock_guard guard{mutex_};
    if (called_ && called_->number == what.number)
      called_.reset();
    if (number_ == what.number)
      drop_transfer();
  }
  work();
}

/// Leaves it to the polling thread to stop it.
void collective_path::drop_transfer() {
  open_ = ready_ = false;
  if (transfer_)
    ending_.push_back(std::exchange(transfer_, nullptr));
}

void collective_path::answer(const collective_answer& what) {
  send_now(frame_kind::collective_answer, {}, write_header(what), {});
}

/// The newest NCCL transfer, begun if it has to be.
auto collective_path::meet(double now) -> nccl_transfer_ptr {
  std::lock_guard guard{mutex_};
  if (!called_)
    return transfer_;
  auto to = *std::exchange(called_, std::nullopt);
  drop_transfer();
  nccl::nccl_transfer_terms terms;
  terms.id = to.id;
  terms.rank = static_cast<int>(to.rank);
  terms.size = static_cast<int>(to.size);
  terms.device = with_.device;
  terms.largest = path::terms().expected;
  terms.limits = with_.limits;
  terms.transfer = with_.transfer;
  number_ = to.number;
  transfer_ = std::make_shared<nccl::nccl_transfer>(with_.library, terms, now);
  return transfer_;
}

/// Whether there is something left of old ones.
bool collective_path::end_old(double now) {
  std::vector<nccl_transfer_ptr> old;
  {
    std::lock_guard guard{mutex_};
    old = ending_;
  }
  std::erase_if(old, [now](const nccl_transfer_ptr& one) {
    one->stop("the membership is over", now);
    return one->poll(now);
  });
  std::lock_guard guard{mutex_};
  std::erase_if(ending_, [&](const nccl_transfer_ptr& one) {
    return std::ranges::count(old, one) > 0;
  });
  return !ending_.empty();
}

std::optional<double> collective_path::poll(double now) {
  auto closed = is_closed();
  if (closed) {
    std::lock_guard guard{mutex_};
    called_.reset();
    drop_transfer();
  }
  auto next = std::numeric_limits<double>::infinity();
  if (auto newest = closed ? nullptr : meet(now))
    next = look_at(newest, now) ? nccl::pace : nccl::idle_pace;
  if (end_old(now))
    return std::min(next, nccl::slow_pace);
  return closed ? std::nullopt : std::optional{next};
}

/// Whether there is something to wait for. The server is told how far it is.
bool collective_path::look_at(const nccl_transfer_ptr& newest, double now) {
  auto busy = newest->poll(now);
  auto why = newest->failure();
  auto ready = newest->takes(terms().expected);
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

collective_end::collective_end(socket line, const path_terms& terms,
                               collective_coordinator_ptr root)
  : stream_path(std::move(line), terms), root_(std::move(root)) {
  // nop
}

collective_end::~collective_end() {
  root_->leave(*this);
}

std::optional<double> collective_end::poll(double) {
  return root_->poll(*this, is_closed());
}

bool collective_end::keeps(frame_kind kind, transfer_id request,
                           const caf::byte_buffer& header,
                           const payload& tensor) {
  return (kind == frame_kind::release || kind == frame_kind::refusal) &&
         root_->keeps(*this, {kind, request, header, tensor});
}

bool collective_end::takes(frame& what) {
  switch (what.kind) {
  case frame_kind::meet:
    root_->enter(*this, read_header<collective_attendance>(what.header));
    return true;
  case frame_kind::collective_answer:
    root_->answered(*this, read_header<collective_answer>(what.header));
    return true;
  case frame_kind::offer:
    offer(what);
    return true;
  case frame_kind::again:
    root_->again(*this, what.request);
    return true;
  case frame_kind::push:
    root_->asked(*this, read_header<push_header>(what.header).id.life);
    return false;
  case frame_kind::pull:
    root_->asked(*this);
    return false;
  default:
    return false;
  }
}

void collective_end::offer(const frame& what) {
  auto header = read_header<push_header>(what.header);
  root_->offered(*this, {what.request, header.id, what.header,
                         what.tensor.shape(), header.samples});
}

void collective_end::call(const collective_call& what) {
  send_now(frame_kind::collective_call, {}, write_header(what), {});
}

void collective_end::open(const collective_open& what) {
  send_now(frame_kind::collective_open, {}, write_header(what), {});
}

void collective_end::over(const collective_over& what) {
  send_now(frame_kind::collective_over, {}, write_header(what), {});
}

void collective_end::give(transfer_id request, const collective_give& what) {
  send_now(frame_kind::give, request, write_header(what), {});
}

void collective_end::fetch(transfer_id request) {
  send_now(frame_kind::fetch, request, {}, {});
}

void collective_end::hand_over(frame push) {
  hand_in(std::move(push));
}

void collective_end::reply(const collective_reply& what, carriage carried) {
  send_now(what.kind, what.request, what.header, what.tensor, carried);
}

void collective_end::wake() {
  work();
}

} // namespace troupe::transport
