#include "messages/transport/nccl/pair_carrier.hpp"

#include "messages/arrival.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace troupe::transport {

namespace {

/// Ranks of the two.
constexpr int sender = 0;
constexpr int receiver = 1;

payload_shape largest_of(const path_terms& terms) {
  return std::max({terms.expected, terms.sent, terms.whole},
                  [](const payload_shape& x, const payload_shape& y) {
                    return x.bytes() < y.bytes();
                  });
}

} // namespace

pair_carrier::pair_carrier(frame_line& line, const path_terms& terms,
                           nccl_terms with)
  : line_(line), stream_(line, terms), asks_(with.asks),
    transfers_(std::move(with), largest_of(terms)) {
  if (asks_)
    line_.send_now({frame_kind::meet, {}, {}, {}});
}

// -- meeting ------------------------------------------------------------------

bool pair_carrier::intercept(frame& received) {
  if (received.kind == frame_kind::meet && !asks_) {
    answer_call();
    return true;
  }
  if (received.kind != frame_kind::call || !asks_)
    return stream_.intercept(received);
  ids met;
  if (received.header.size() != sizeof met.gradients + sizeof met.weights)
    throw path_error{"a call to NCCL that cannot be read"};
  auto bytes = std::as_bytes(std::span{received.header});
  auto half = bytes.size() / 2;
  std::ranges::copy(bytes.first(half), met.gradients.begin());
  std::ranges::copy(bytes.subspan(half), met.weights.begin());
  meet(met);
  return true;
}

void pair_carrier::answer_call() {
  ids met{transfers_.make_id(), transfers_.make_id()};
  caf::byte_buffer header;
  for (const auto* id : {&met.gradients, &met.weights})
    for (auto byte : *id)
      header.push_back(static_cast<caf::byte>(byte));
  line_.send_now({frame_kind::call, {}, std::move(header), {}});
  meet(met);
}

void pair_carrier::meet(const ids& met) {
  {
    std::lock_guard guard{mutex_};
    if (called_ || leaving_)
      throw path_error{"called to NCCL twice"};
    called_ = met;
  }
  line_.wake();
}

void pair_carrier::begin_transfers(double now) {
  auto met = *std::exchange(called_, std::nullopt);
  // The end that asks is the worker's: gradients leave there.
  if (!asks_)
    std::swap(met.gradients, met.weights);
  leaving_ = transfers_.begin(met.gradients, sender, 2, now);
  coming_ = transfers_.begin(met.weights, receiver, 2, now);
}

nccl_transfer_ptr pair_carrier::find_transfer(bool leaves) const {
  std::lock_guard guard{mutex_};
  return leaves ? leaving_ : coming_;
}

std::optional<double> pair_carrier::poll(double now) {
  // The line may be closed at any time; the next poll then stops everything.
  auto closed = line_.is_closed();
  {
    std::lock_guard guard{mutex_};
    if (closed) {
      transfers_.drop(std::exchange(leaving_, nullptr), "the path is closed");
      transfers_.drop(std::exchange(coming_, nullptr), "the path is closed");
    } else if (called_) {
      begin_transfers(now);
    }
  }
  if (closed)
    return transfers_.end_dropped(now) ? std::optional{nccl::slow_pace}
                                       : std::nullopt;
  return poll_transfers(now) || line_.is_closed()
           ? nccl::pace
           : std::numeric_limits<double>::infinity();
}

/// True while there is something to wait for.
bool pair_carrier::poll_transfers(double now) {
  auto busy = false;
  for (auto leaves : {true, false})
    if (auto transfer = find_transfer(leaves)) {
      busy |= transfer->poll(now);
      if (auto why = transfer->failure(); !why.empty())
        line_.close("NCCL: " + why);
    }
  if (busy && line_.is_cut())
    line_.close("the other end closed the path");
  return busy;
}

// -- tensors ------------------------------------------------------------------

bool pair_carrier::is_open(const payload_shape& shape) const {
  auto transfer = find_transfer(true);
  return transfer && transfer->takes(shape);
}

outgoing_tensor pair_carrier::place(frame_head& head, const payload& tensor) {
  auto transfer = find_transfer(true);
  if (!transfer || !transfer->takes(tensor.shape()))
    return stream_.place(head, tensor);
  head.carried = carriage::device;
  transfer->send(receiver, tensor, {});
  line_.wake();
  return {};
}

incoming_tensor pair_carrier::expect(const frame_head& head,
                                     std::vector<descriptor>& files) {
  if (head.carried != carriage::device || head.kind == frame_kind::piece)
    return stream_.expect(head, files);
  auto transfer = find_transfer(false);
  if (!transfer)
    throw path_error{"a tensor over NCCL before anybody has met"};
  auto memory = stream_.take_memory();
  auto* data = memory.get();
  auto bytes = head.shape.bytes();
  auto progress = std::make_shared<arrival>(bytes, 0);
  transfer->receive(sender, {data, static_cast<size_t>(bytes)}, head.shape.type,
                    [progress, bytes](bool there) {
                      if (there)
                        progress->reach(bytes);
                      else
                        progress->break_off();
                    });
  line_.wake();
  if (!progress->wait_for_all())
    throw path_error{"a tensor over NCCL did not come: " + transfer->failure()};
  return {payload{head.shape, std::move(memory), data}, {}, 0, false};
}

} // namespace troupe::transport
