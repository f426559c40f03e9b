#include "tests/process/hostile_node.hpp"

#include "messages/protocol.hpp"

#include <caf/binary_deserializer.hpp>
#include <caf/binary_serializer.hpp>
#include <caf/io/basp/message_type.hpp>
#include <poll.h>
#include <sys/socket.h>

#include <span>
#include <stdexcept>
#include <vector>

namespace troupe::testing {

using caf::io::basp::header;
using caf::io::basp::header_size;
using caf::io::basp::message_type;
using transport::path_error;

namespace {

/// s that a server may take to answer.
constexpr double seconds = 10;

/// Its own actor that speaks.
constexpr caf::actor_id voice = 3;

caf::binary_deserializer reader_of(const caf::byte_buffer& bytes) {
  return {nullptr, bytes};
}

template <class... Ts>
std::string bytes_of(const Ts&... values) {
  caf::byte_buffer out;
  caf::binary_serializer sink{nullptr, out};
  if (!(sink.apply(values) && ...))
    throw std::runtime_error("a message cannot be written");
  return {reinterpret_cast<const char*>(out.data()), out.size()};
}

caf::node_id node_of(uint32_t number) {
  return *caf::make_node_id(number, "0011223344556677889900112233445566778899");
}

} // namespace

transport::socket reach(const server_at& to) {
  return transport::connect_securely(to.where, to.own, seconds, 0);
}

bool send_bytes(transport::socket& to, std::string_view bytes) try {
  iovec out[] = {{const_cast<char*>(bytes.data()), bytes.size()}};
  std::span<iovec> parts{out};
  to.send(parts, true);
  return true;
} catch (const path_error&) {
  return false;
}

bool is_closed(transport::socket& line, double limit) {
  ::shutdown(line.get(), SHUT_WR);
  char bytes[4096];
  pollfd readable{line.get(), POLLIN, 0};
  while (::poll(&readable, 1, static_cast<int>(limit * 1000)) > 0)
    if (::recv(line.get(), bytes, sizeof bytes, MSG_DONTWAIT) <= 0)
      return true;
  return false;
}

std::string basp_frame(header head, const std::string& payload) {
  head.payload_len = static_cast<uint32_t>(payload.size());
  return bytes_of(head) + payload;
}

std::string basp_handshake(uint32_t number) {
  return basp_frame({message_type::client_handshake, 0, 0, 0, 0, 0},
                    bytes_of(node_of(number)));
}

std::string basp_message(caf::actor_id from, caf::actor_id to,
                         const caf::message& content, uint64_t request) {
  auto id =
    caf::make_message_id(caf::normal_message_priority_constant{}, request);
  return basp_frame(
    {message_type::direct_message, 0, 0, id.integer_value(), from, to},
    bytes_of(std::vector<caf::strong_actor_ptr>{}, content));
}

std::string basp_handle(caf::actor_id from, caf::actor_id to, uint32_t node,
                        caf::actor_id whom) {
  auto async = caf::message_id::default_async_value;
  return basp_frame({message_type::direct_message, 0, 0, async, from, to},
                    bytes_of(std::vector<caf::strong_actor_ptr>{},
                             std::vector{caf::type_id_v<caf::strong_actor_ptr>},
                             whom, node_of(node)));
}

member::member(const server_at& to, uint32_t number) : line_(reach(to)) {
  transport::open_line(line_, transport::purpose::control, to.own.proof,
                       seconds);
  line_.patience(seconds);
  send(basp_handshake(number));
  caf::byte_buffer payload;
  while (next_frame(payload).operation != message_type::server_handshake)
    ;
  auto from = reader_of(payload);
  caf::node_id node;
  std::vector<std::string> names;
  if (!from.apply(node) || !from.apply(names) || !from.apply(door_))
    throw std::runtime_error("the server's handshake cannot be read");
}

header member::next_frame(caf::byte_buffer& payload) {
  caf::byte_buffer bytes(header_size);
  iovec first[] = {{bytes.data(), bytes.size()}};
  header out{};
  if (!line_.receive(first, nullptr) || !reader_of(bytes).apply(out))
    throw path_error{"the server closes the connection"};
  payload.resize(out.payload_len);
  iovec rest[] = {{payload.data(), payload.size()}};
  if (!payload.empty() && !line_.receive(rest, nullptr))
    throw path_error{"the server closes the connection"};
  return out;
}

proto::Welcome member::say_hello() {
  proto::Hello hello;
  hello.set_protocol(protocol_version);
  hello.set_role("worker");
  hello.set_name("a stranger's");
  send(basp_message(voice, door_, caf::make_message(hello.SerializeAsString()),
                    ++requests_));
  caf::byte_buffer payload;
  header head;
  do
    head = next_frame(payload);
  while (head.operation != message_type::direct_message ||
         head.dest_actor != voice);
  auto from = reader_of(payload);
  size_t stages = 0, values = 0;
  caf::type_id_t types[2] = {};
  std::string text;
  if (!from.begin_sequence(stages) || !from.begin_sequence(values) ||
      values != 2 || !from.value(types[0]) || !from.value(types[1]) ||
      !from.apply(text) || !from.value(gateway_))
    throw std::runtime_error("the answer to a hello cannot be read");
  proto::Welcome out;
  if (!out.ParseFromString(text))
    throw std::runtime_error("the welcome cannot be read");
  return out;
}

} // namespace troupe::testing
