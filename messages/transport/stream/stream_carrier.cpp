#include "messages/transport/stream/stream_carrier.hpp"

#include <utility>

namespace troupe::transport {

namespace {

payload_shape sent_by(const path_terms& terms) {
  return terms.sent.count > 0 ? terms.sent : terms.expected;
}

} // namespace

stream_carrier::stream_carrier(frame_line& line, const path_terms& terms)
  : line_(line), terms_(terms), arrivals_(terms.expected.bytes()),
    activations_(terms.activations().bytes()),
    leaving_(terms.overlap, sent_by(terms)), coming_(terms.expected) {
  // nop
}

// -- out ----------------------------------------------------------------------

outgoing_tensor stream_carrier::place(frame_head& head, const payload& tensor) {
  outgoing_tensor out;
  auto weights = !has_activations(head.kind);
  if (auto number = weights ? leaving_.take_number(tensor) : std::nullopt) {
    head.carried = carriage::ahead;
    head.region = *number;
    return out;
  }
  head.carried = carriage::follows;
  if (weights && tensor.shape() == sent_by(terms_))
    out.first = static_cast<size_t>(terms_.first_sent);
  head.offset = out.first;
  out.follows = tensor;
  return out;
}

gradient_stream* stream_carrier::early_gradients() {
  return terms_.overlap == config::overlap_rule::off ? nullptr : this;
}

void stream_carrier::begin(const payload& gradient) {
  leaving_.begin(gradient);
}

void stream_carrier::ready(uint64_t from) {
  if (auto next = leaving_.ready(from)) {
    line_.send_piece(next->number, next->offset, next->what);
    leaving_.sent(*next);
  }
}

void stream_carrier::computed(double seconds) {
  leaving_.computed(seconds, line_.seconds_on_the_way());
}

// -- in -----------------------------------------------------------------------

memory_block stream_carrier::take_memory(payload_pool& pool) {
  if (pool.stats().in_use >= terms_.most_tensors)
    throw path_error{"too many tensors at a time"};
  return pool.take_block();
}

incoming_tensor stream_carrier::expect(const frame_head& head,
                                       std::vector<descriptor>&) {
  incoming_tensor out;
  if (head.kind == frame_kind::piece) {
    if (coming_.begins(head))
      coming_.begin(head, take_memory());
    out.follows = coming_.place(head);
    return out;
  }
  if (head.carried == carriage::ahead) {
    out.tensor = coming_.take_payload(head.region);
    return out;
  }
  auto bytes = static_cast<size_t>(head.shape.bytes());
  if (head.carried != carriage::follows || head.offset > bytes)
    throw path_error{"a tensor in memory that this path does not share"};
  auto memory =
    take_memory(has_activations(head.kind) ? activations_ : arrivals_);
  auto* data = memory.get();
  out.tensor = {head.shape, std::move(memory), data};
  out.follows = {data, bytes};
  out.first = static_cast<size_t>(head.offset);
  out.early =
    terms_.in_use_early && head.kind == frame_kind::release && leaving_.on();
  return out;
}

bool stream_carrier::intercept(frame& received) {
  if (received.kind != frame_kind::piece)
    return false;
  coming_.look_at(received.tensor.finite());
  return true;
}

path_row stream_row() {
  path_row out;
  out.facts.name = "stream";
  out.facts.overlaps = true;
  out.offered = [](const proto::PathOffer& offer) {
    return offer.stream_port() != 0;
  };
  out.near_end =
    out.far_end = [](socket line, const path_terms& terms, const path_means&) {
      return make_path<stream_carrier>(std::move(line), terms);
    };
  return out;
}

} // namespace troupe::transport
