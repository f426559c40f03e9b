#include "messages/transport/nccl/pair_carrier.hpp"

#include <algorithm>
#include <chrono>
#include <future>
#include <utility>

namespace troupe::transport {

namespace {

/// Ranks of the two.
constexpr int sending_rank = 0;
constexpr int receiving_rank = 1;

/// How long the reader waits for numbers before it looks whether the other end
/// is still there.
constexpr auto look_pace = std::chrono::milliseconds{20};

} // namespace

pair_carrier::pair_carrier(frame_line& line, const path_terms& terms,
                           pair_terms with)
  : line_(line), stream_(line, terms), with_(std::move(with)) {
  if (with_.asks)
    line_.send_now({frame_kind::meet, {}, {}, {}});
}

// Nobody is told of the groups any more when they are dropped.
pair_carrier::~pair_carrier() {
  groups over;
  std::lock_guard guard{mutex_};
  std::swap(over, groups_);
}

std::string_view pair_carrier::name() const {
  return with_.asks || current().leaving ? "nccl" : "stream";
}

// -- meeting ------------------------------------------------------------------

bool pair_carrier::intercept(frame& received) {
  if (received.kind == frame_kind::meet && !with_.asks) {
    answer_call();
    return true;
  }
  if (received.kind != frame_kind::call || !with_.asks)
    return stream_.intercept(received);
  group_id gradients, weights;
  if (received.header.size() != sizeof gradients + sizeof weights)
    throw path_error{"a call to NCCL that cannot be read"};
  auto bytes = std::as_bytes(std::span{received.header});
  std::ranges::copy(bytes.first(sizeof gradients), gradients.begin());
  std::ranges::copy(bytes.last(sizeof weights), weights.begin());
  meet(gradients, weights);
  return true;
}

void pair_carrier::answer_call() {
  auto gradients = with_.network->make_id();
  auto weights = with_.network->make_id();
  caf::byte_buffer header;
  for (const auto* id : {&gradients, &weights})
    for (auto byte : *id)
      header.push_back(static_cast<caf::byte>(byte));
  line_.send_now({frame_kind::call, {}, std::move(header), {}});
  meet(gradients, weights);
}

/// Gradients leave at the end that asks, which is the worker's.
void pair_carrier::meet(const group_id& gradients, const group_id& weights) {
  if (current().leaving)
    throw path_error{"called to NCCL twice"};
  const auto& [out, in] =
    with_.asks ? std::tie(gradients, weights) : std::tie(weights, gradients);
  groups both{open(out, sending_rank), open(in, receiving_rank)};
  std::lock_guard guard{mutex_};
  if (!ended_)
    groups_ = std::move(both);
}

gpu_group_ptr pair_carrier::open(const group_id& id, int rank) {
  return with_.network->open(
    id, rank, 2, with_.patience,
    [&line = line_](gpu_group::phase now, const std::string& why) {
      if (now == gpu_group::phase::over)
        line.close("NCCL: " + why);
    });
}

pair_carrier::groups pair_carrier::current() const {
  std::lock_guard guard{mutex_};
  return groups_;
}

bool pair_carrier::is_open() const {
  auto [leaving, coming] = current();
  return leaving && leaving->state() == gpu_group::phase::open &&
         coming->state() == gpu_group::phase::open;
}

void pair_carrier::end() {
  groups over;
  {
    std::lock_guard guard{mutex_};
    ended_ = true;
    over = groups_;
  }
  for (const auto& each : {over.leaving, over.coming})
    if (each)
      each->end("the path is closed");
}

// -- tensors ------------------------------------------------------------------

outgoing_tensor pair_carrier::place(frame_head& head, const payload& tensor) {
  const auto* lies = tensor.device();
  auto goes = lies != nullptr && lies->device() == with_.network->device() &&
              tensor.shape().type != element_type::byte && is_open();
  if (!goes)
    return stream_.place(head, tensor);
  head.carried = carriage::device;
  current().leaving->send(receiving_rank, tensor, {});
  return {};
}

incoming_tensor pair_carrier::expect(const frame_head& head,
                                     std::vector<descriptor>& files) {
  if (head.carried != carriage::device || head.kind == frame_kind::piece)
    return stream_.expect(head, files);
  auto from = current().coming;
  if (!from)
    throw path_error{"a tensor over NCCL before anybody has met"};
  // Shared, since the network may answer when nobody waits any more.
  auto answer = std::make_shared<std::promise<payload>>();
  auto numbers = answer->get_future();
  from->receive(sending_rank, head.shape, [answer](payload there) {
    answer->set_value(std::move(there));
  });
  while (numbers.wait_for(look_pace) != std::future_status::ready)
    if (line_.is_cut())
      throw path_error{"the other end closed the path"};
  auto tensor = numbers.get();
  if (!tensor)
    throw path_error{"a tensor over NCCL did not come: " + from->why_over()};
  return {std::move(tensor), {}, 0, false};
}

} // namespace troupe::transport
