#include "messages/transport/stream/stream_path.hpp"

#include <utility>

namespace troupe::transport {

namespace {

payload_shape sent_by(const path_terms& terms) {
  return terms.sent.count > 0 ? terms.sent : terms.expected;
}

} // namespace

stream_path::stream_path(socket line, const path_terms& terms)
  : path(std::move(line), terms), arrivals_(terms.expected.bytes()),
    activations_(terms.activations().bytes()),
    leaving_(terms.overlap, sent_by(terms)), coming_(terms.expected) {
  // nop
}

// -- out ----------------------------------------------------------------------

void stream_path::place(frame_head& head, const payload& tensor,
                        outgoing& out) {
  auto weights = !has_activations(head.kind);
  if (auto number = weights ? leaving_.take(tensor) : std::nullopt) {
    head.carried = carriage::ahead;
    head.region = *number;
    return;
  }
  head.carried = carriage::follows;
  if (weights && tensor.shape() == sent_by(terms()))
    out.first = static_cast<size_t>(terms().first_sent);
  head.offset = out.first;
  out.tensor = tensor;
}

gradient_stream* stream_path::early_gradients() {
  return terms().overlap == config::overlap_rule::off ? nullptr : this;
}

void stream_path::begin(const payload& gradient) {
  leaving_.begin(gradient);
}

void stream_path::ready(uint64_t from) {
  if (auto next = leaving_.ready(from)) {
    send_piece(next->number, next->offset, next->what);
    leaving_.sent(*next);
  }
}

void stream_path::computed(double seconds) {
  leaving_.computed(seconds, seconds_on_the_way());
}

// -- in -----------------------------------------------------------------------

std::shared_ptr<std::byte> stream_path::take_memory(payload_pool& from) {
  if (from.stats().in_use >= terms().most_tensors)
    throw path_error{"too many tensors at a time"};
  return from.take();
}

payload stream_path::expect(const frame_head& head, std::vector<descriptor>&,
                            incoming& follows) {
  if (head.carried == carriage::ahead)
    return coming_.take(head.region);
  auto bytes = static_cast<size_t>(head.shape.bytes());
  if (head.carried != carriage::follows || head.offset > bytes)
    throw path_error{"a tensor in memory that this path does not share"};
  auto memory =
    take_memory(has_activations(head.kind) ? activations_ : arrivals_);
  auto* data = memory.get();
  follows = {{data, bytes}, static_cast<size_t>(head.offset)};
  return {head.shape, std::move(memory), data};
}

std::span<std::byte> stream_path::expect_piece(const frame_head& head) {
  if (coming_.begins(head))
    coming_.begin(head, take_memory());
  return coming_.place(head);
}

void stream_path::take_piece(std::optional<bool> finite) {
  coming_.look_at(finite);
}

bool stream_path::hands_out_early(const frame_head& head) const {
  return terms().in_use_early && head.kind == frame_kind::release &&
         leaving_.on();
}

path_row stream_row() {
  path_row out;
  out.facts.name = "stream";
  out.facts.overlaps = true;
  out.offered = [](const proto::PathOffer& offer) {
    return offer.stream_port() != 0;
  };
  out.near_end = [](socket line, const path_terms& terms, const path_means&,
                    const proto::PathOffer&) -> path_ptr {
    return std::make_shared<stream_path>(std::move(line), terms);
  };
  out.far_end = [](socket line, const path_terms& terms,
                   const path_means&) -> path_ptr {
    return std::make_shared<stream_path>(std::move(line), terms);
  };
  return out;
}

} // namespace troupe::transport
