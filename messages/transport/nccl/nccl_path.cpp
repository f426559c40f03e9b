#include "messages/transport/nccl/nccl_path.hpp"

#include "messages/arrival.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace troupe::transport {

namespace {

/// Ranks of the two.
constexpr int sender = 0;
constexpr int receiver = 1;

} // namespace

nccl_path::nccl_path(socket line, const path_terms& terms, nccl_terms with)
  : stream_path(std::move(line), terms), with_(std::move(with)) {
  if (with_.asks)
    send_now(frame_kind::meet, {}, {}, {});
}

nccl_path::~nccl_path() = default;

// -- meeting ------------------------------------------------------------------

bool nccl_path::takes(frame& what) {
  if (what.kind == frame_kind::meet && !with_.asks) {
    answer_call();
    return true;
  }
  if (what.kind != frame_kind::call || !with_.asks)
    return false;
  ids where;
  if (what.header.size() != sizeof where.gradients + sizeof where.weights)
    throw path_error{"a call to NCCL that cannot be read"};
  auto bytes = std::as_bytes(std::span{what.header});
  auto half = bytes.size() / 2;
  std::ranges::copy(bytes.first(half), where.gradients.begin());
  std::ranges::copy(bytes.subspan(half), where.weights.begin());
  meet(where);
  return true;
}

void nccl_path::answer_call() {
  ids where{make_id(), make_id()};
  caf::byte_buffer header;
  for (const auto* id : {&where.gradients, &where.weights})
    for (auto byte : *id)
      header.push_back(static_cast<caf::byte>(byte));
  send_now(frame_kind::call, {}, header, {});
  meet(where);
}

nccl::id_bytes nccl_path::make_id() const {
  nccl::abi::unique_id id;
  auto code = with_.library->call().get_unique_id(&id);
  if (code != nccl::abi::result::success)
    throw path_error{"NCCL gives no id: " + with_.library->explain(code)};
  return nccl::to_bytes(id);
}

void nccl_path::meet(const ids& where) {
  {
    std::lock_guard guard{mutex_};
    if (called_ || leaving_)
      throw path_error{"called to NCCL twice"};
    called_ = where;
  }
  work();
}

void nccl_path::make_transfers(double now) {
  auto where = *std::exchange(called_, std::nullopt);
  auto make = [&](bool leaves) {
    nccl::nccl_transfer_terms terms;
    // The end that asks is the worker's: gradients leave there.
    terms.id = leaves == with_.asks ? where.gradients : where.weights;
    terms.rank = leaves ? sender : receiver;
    terms.device = with_.device;
    terms.limits = with_.limits;
    terms.transfer = with_.transfer;
    terms.largest = path::terms().expected;
    for (const auto& other : {path::terms().sent, path::terms().whole})
      if (other.bytes() > terms.largest.bytes())
        terms.largest = other;
    return std::make_shared<nccl::nccl_transfer>(with_.library, terms, now);
  };
  leaving_ = make(true);
  coming_ = make(false);
}

std::shared_ptr<nccl::nccl_transfer>
nccl_path::nccl_transfer(bool leaves) const {
  std::lock_guard guard{mutex_};
  return leaves ? leaving_ : coming_;
}

std::optional<double> nccl_path::poll(double now) {
  constexpr auto never = std::numeric_limits<double>::infinity();
  // It may be closed at any time; the next poll then stops everything.
  auto closed = is_closed();
  {
    std::lock_guard guard{mutex_};
    if (called_ && !closed)
      make_transfers(now);
    if (!leaving_)
      return closed ? std::nullopt : std::optional{never};
  }
  auto busy = false;
  for (auto leaves : {true, false}) {
    auto it = nccl_transfer(leaves);
    if (closed)
      it->stop("the path is closed", now);
    busy |= it->poll(now);
    if (auto why = it->failure(); !why.empty() && !closed)
      close("NCCL: " + why);
  }
  if (closed)
    return busy ? std::optional{nccl::slow_pace} : std::nullopt;
  if (busy && is_cut())
    close("the other end closed the path");
  return busy || is_closed() ? nccl::pace : never;
}

// -- tensors ------------------------------------------------------------------

bool nccl_path::is_open(const payload_shape& shape) const {
  auto it = nccl_transfer(true);
  return it && it->takes(shape);
}

void nccl_path::place(frame_head& head, const payload& tensor, outgoing& out) {
  auto it = nccl_transfer(true);
  if (!it || !it->takes(tensor.shape()))
    return stream_path::place(head, tensor, out);
  head.carried = carriage::device;
  it->send(receiver, tensor, {});
  work();
}

payload nccl_path::expect(const frame_head& head,
                          std::vector<descriptor>& passed, incoming& follows) {
  if (head.carried != carriage::device)
    return stream_path::expect(head, passed, follows);
  auto it = nccl_transfer(false);
  if (!it)
    throw path_error{"a tensor over NCCL before anybody has met"};
  auto memory = take_memory();
  auto* data = memory.get();
  auto bytes = head.shape.bytes();
  auto progress = std::make_shared<arrival>(bytes, 0);
  it->receive(sender, {data, static_cast<size_t>(bytes)}, head.shape.type,
              [progress, bytes](bool there) {
                if (there)
                  progress->reach(bytes);
                else
                  progress->break_off();
              });
  work();
  if (!progress->wait_for_all())
    throw path_error{"a tensor over NCCL did not come: " + it->failure()};
  return {head.shape, std::move(memory), data};
}

/// A tensor that arrives over NCCL is complete at once.
bool nccl_path::hands_out_early(const frame_head& head) const {
  return head.carried == carriage::follows &&
         stream_path::hands_out_early(head);
}

} // namespace troupe::transport
