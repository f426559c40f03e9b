#include "actors/control/guard.hpp"

#include <caf/all.hpp>
#include <caf/binary_deserializer.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

namespace troupe::control {

namespace {

/// Bytes that are read at once of a message of unknown length.
constexpr size_t least_room = 4096;

using caf::io::basp::header;
using caf::io::basp::header_size;
using caf::io::basp::message_type;

header header_in(caf::actor_system& system, std::span<const caf::byte> bytes) {
  header out{};
  caf::binary_deserializer source{system,
                                  caf::make_span(bytes.data(), bytes.size())};
  if (!source.apply(out) || !valid(out))
    throw breach("bytes that are no message of CAF's protocol");
  return out;
}

std::string whole(double number) {
  return std::to_string(static_cast<uint64_t>(number));
}

void check_size(const char* noun, size_t bytes, size_t most) {
  if (bytes > most)
    throw breach(std::string{noun} + " of " + std::to_string(bytes) +
                 " B, of which " + std::to_string(most) + " are allowed");
}

/// The types of CAF's own that our messages have in them, besides ours.
bool is_usual(caf::type_id_t id) {
  constexpr caf::type_id_t usual[] = {
    caf::type_id_v<bool>,        caf::type_id_v<int8_t>,
    caf::type_id_v<int16_t>,     caf::type_id_v<int32_t>,
    caf::type_id_v<int64_t>,     caf::type_id_v<uint8_t>,
    caf::type_id_v<uint16_t>,    caf::type_id_v<uint32_t>,
    caf::type_id_v<uint64_t>,    caf::type_id_v<float>,
    caf::type_id_v<double>,      caf::type_id_v<std::string>,
    caf::type_id_v<caf::error>,  caf::type_id_v<caf::byte_buffer>,
    caf::type_id_v<caf::unit_t>, caf::type_id_v<caf::strong_actor_ptr>,
  };
  return id >= caf::first_custom_type_id ||
         std::ranges::find(usual, id) != std::end(usual);
}

} // namespace

guard::guard(caf::actor_system& system, grants_ptr given,
             std::optional<shown_certificate> who)
  : system_(system), given_(std::move(given)), who_(std::move(who)) {
  // nop
}

guard::~guard() {
  if (is_first_)
    given_->leave(node_);
}

std::span<caf::byte> guard::room() {
  auto wanted =
    come_ < header_size ? header_size : header_size + head_.payload_len;
  // Memory is taken as bytes come, not for what is announced.
  auto size =
    std::min(wanted, std::max({coming_.size(), 2 * come_, least_room}));
  if (coming_.size() < size)
    coming_.resize(size);
  return {coming_.data() + come_, size - come_};
}

void guard::came(size_t count) {
  come_ += count;
  if (come_ < header_size)
    return;
  if (come_ == header_size) {
    head_ = header_in(system_, {coming_.data(), header_size});
    auto limit = node_ ? most : most_of_handshake;
    check_size("a message", head_.payload_len, limit);
  }
  if (come_ < header_size + head_.payload_len)
    return;
  bytes_view payload{coming_.data() + header_size, head_.payload_len};
  if (!messages_.allows(rate_limit::clock::now()))
    throw breach("more than " + whole(messages_per_second) +
                 " messages a second");
  if (is_for_us(head_, payload))
    pass();
  come_ = 0;
}

// The buffers change places and keep their sizes, so that no message is copied
// and no memory is set to zero again.
void guard::pass() {
  if (ready() == 0) {
    coming_.swap(passed_);
    taken_ = 0;
    ready_to_ = come_;
    return;
  }
  passed_.resize(ready_to_);
  passed_.insert(passed_.end(), coming_.begin(),
                 coming_.begin() + static_cast<ptrdiff_t>(come_));
  ready_to_ = passed_.size();
}

size_t guard::take(std::span<caf::byte> to) {
  auto count = std::min(ready(), to.size());
  std::memcpy(to.data(), passed_.data() + taken_, count);
  taken_ += count;
  return count;
}

/// False for what is dropped without harm. Throws `breach`.
bool guard::is_for_us(const header& head, bytes_view payload) {
  if (head.operation == message_type::client_handshake) {
    shake_hands(payload);
    return true;
  }
  if (!node_)
    throw breach("a message before the handshake");
  if (!is_first_) // CAF does not know this connection.
    return false;
  switch (head.operation) {
  case message_type::heartbeat:
    return true;
  case message_type::direct_message:
    return may_deliver(head, payload);
  case message_type::monitor_message:
    check_nodes(payload);
    if (!curious_.contains(head.dest_actor))
      check_receiver(head);
    return true;
  case message_type::down_message:
    check_nodes(payload);
    check_handles(payload, &handle_reader::read_down);
    return true;
  default:
    throw breach("a message for another node");
  }
}

void guard::shake_hands(bytes_view payload) {
  caf::node_id node;
  caf::binary_deserializer source{
    system_, caf::make_span(payload.data(), payload.size())};
  if (node_)
    throw breach("a second handshake");
  if (!source.apply(node) || !node || node == system_.node())
    throw breach("a handshake that names no other node");
  node_ = node;
  is_first_ = given_->enter(node_, who_);
}

// CAF itself asks each node by name what it can start. Nobody wants to know.
bool guard::may_deliver(const header& head, bytes_view payload) {
  if (head.has(header::named_receiver_flag) ||
      curious_.contains(head.dest_actor))
    return false;
  // CAF takes their contents for what they should be.
  if (caf::message_id{head.operation_data}.is_stream_message())
    throw breach("a message of a stream, which no node sends");
  check_types(payload);
  check_receiver(head);
  if (given_->is_published(head.dest_actor))
    check_hello(head);
  return true;
}

/// An answer to one costs more than what else a node asks.
void guard::check_hello(const header& head) {
  check_size("a hello", head.payload_len, most_of_hello);
  if (!hellos_.allows(rate_limit::clock::now()))
    throw breach("more than " + whole(hellos_per_second) + " hellos a second");
}

void guard::check_receiver(const header& head) const {
  if (given_->allows(node_, head.dest_actor))
    return;
  auto found = system_.registry().get(head.dest_actor);
  const auto* whom =
    found ? dynamic_cast<caf::local_actor*>(found->get()) : nullptr;
  throw breach("a message to " +
               (whom ? std::string{whom->name()} : "an actor that has ended") +
               ", which it was not given");
}

/// It speaks for itself, to us.
void guard::check_nodes(bytes_view payload) const {
  caf::node_id from, to;
  caf::binary_deserializer source{
    system_, caf::make_span(payload.data(), payload.size())};
  if (!source.apply(from) || !source.apply(to) || from != node_ ||
      to != system_.node())
    throw breach("a message in the name of another node, or for one");
}

void guard::check_types(bytes_view payload) {
  caf::binary_deserializer source{
    system_, caf::make_span(payload.data(), payload.size())};
  size_t stages = 0, values = 0;
  if (!source.begin_sequence(stages) || stages > 0 ||
      !source.begin_sequence(values))
    throw breach("a message that goes by way of others");
  if (values > most_values)
    throw breach("a message with " + std::to_string(values) + " values");
  auto has_handle = false;
  for (size_t i = 0; i < values; ++i) {
    caf::type_id_t id = 0;
    if (!source.value(id) || !is_usual(id))
      throw breach("a message with a value of type " + std::to_string(id) +
                   ", which no node sends");
    has_handle = has_handle || handle_reader::concerns(id);
  }
  if (has_handle)
    check_handles(payload, &handle_reader::read_message);
}

/// It hands out its own actors, not too many, and ours only if it has them from
/// us: they would be asked in our name.
void guard::check_handles(bytes_view payload, reading read) {
  check_size("a message with actors or errors", payload.size(),
             most_of_handles);
  handle_reader found{system_, node_};
  if (!(found.*read)(payload))
    throw breach("a message that cannot be read");
  if (found.has_others())
    throw breach("an actor of another node");
  for (auto id : found.ours())
    if (!given_->allows(node_, id))
      throw breach("an actor of this process that it was not given");
  if (found.theirs() > 0 && !handles_.allows(rate_limit::clock::now()))
    throw breach("more than " + whole(hellos_per_second) +
                 " messages with actors a second");
}

void guard::goes(std::span<const caf::byte> bytes) {
  while (!bytes.empty()) {
    auto skipped = std::min<uint64_t>(going_payload_, bytes.size());
    going_payload_ -= skipped;
    bytes = bytes.subspan(skipped);
    auto more = std::min(header_size - going_.size(), bytes.size());
    going_.insert(going_.end(), bytes.begin(),
                  bytes.begin() + static_cast<ptrdiff_t>(more));
    bytes = bytes.subspan(more);
    if (going_.size() < header_size)
      return;
    auto head = header_in(system_, {going_.data(), going_.size()});
    if (head.has(header::named_receiver_flag))
      curious_.insert(head.source_actor);
    else if (head.operation == message_type::direct_message)
      given_->allow(node_, head.source_actor);
    going_payload_ = head.payload_len;
    going_.clear();
  }
}

} // namespace troupe::control
