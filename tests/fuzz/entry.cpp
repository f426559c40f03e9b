// What a node reads of another before it trusts it: the opening of who
// connects, the answer of whom it dials, and CAF's protocol.

#include "actors/control/guard.hpp"
#include "messages/interfaces.hpp"
#include "messages/transport/wire/acceptor.hpp"
#include "tests/fuzz/seeds.hpp"
#include "tests/fuzz/targets.hpp"
#include "tests/support/sockets.hpp"

#include <caf/actor_system_config.hpp>
#include <caf/binary_serializer.hpp>
#include <caf/io/basp/message_type.hpp>
#include <sys/socket.h>

#include <algorithm>

namespace troupe::fuzz {

using namespace transport;
using caf::io::basp::message_type;

namespace {

void put_all(const transport::socket& to, bytes_view bytes) {
  [[maybe_unused]] auto sent =
    ::send(to.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  ::shutdown(to.get(), SHUT_WR);
}

/// An acceptor that welcomes who wants to send tensors.
acceptor& any_acceptor() {
  static acceptor made{[] {
    acceptor_terms out;
    out.host = "127.0.0.1";
    out.say = [](const std::string& line) {
      require_one_line(line);
    };
    return out;
  }()};
  return made;
}

void let_in(guest who) {
  try {
    who.welcome();
  } catch (const path_error&) { // It has gone.
  }
}

constexpr caf::actor_id published = 7;

/// It lives until the process ends: an end among those of static objects would
/// be too late for CAF.
caf::actor_system& any_system() {
  init_messages();
  static auto* config = new caf::actor_system_config;
  static auto* made = new caf::actor_system{*config};
  return *made;
}

template <class... Ts>
std::string bytes_of(const Ts&... values) {
  caf::byte_buffer out;
  caf::binary_serializer sink{any_system(), out};
  require((sink.apply(values) && ...), "it can be written");
  return {reinterpret_cast<const char*>(out.data()), out.size()};
}

template <class... Ts>
std::string basp_frame(caf::io::basp::header head, const Ts&... values) {
  auto payload = bytes_of(values...);
  head.payload_len = static_cast<uint32_t>(payload.size());
  return bytes_of(head) + payload;
}

caf::node_id any_node_id() {
  return *caf::make_node_id(42, "0011223344556677889900112233445566778899");
}

template <class... Ts>
std::string message_to_published(const Ts&... values) {
  return basp_frame({message_type::direct_message, 0, 0, 0, 3, published},
                    std::vector<caf::strong_actor_ptr>{},
                    caf::make_message(values...));
}

} // namespace

bool opening_bytes(bytes_view data) {
  for (auto wants : {purpose::control, purpose::tensors})
    any_acceptor().lead_to(wants, let_in);
  transport::socket line{connect_unix(any_acceptor().name())};
  put_all(line, data.first(std::min<size_t>(data.size(), 4096)));
  line.patience(10);
  char first = 0, rest = 0;
  auto got = ::recv(line.get(), &first, 1, 0);
  while (::recv(line.get(), &rest, 1, 0) > 0)
    ;
  return got == 1 && first == static_cast<char>(entry_answer::accepted);
}

bool answer(bytes_view data) {
  auto [here, there] = test::socket_pair();
  put_all(there, data.first(std::min<size_t>(data.size(), 100'000)));
  return taken<path_error>(
    [&, &line = here] { open_line(line, purpose::control, "", 10); });
}

bool basp(bytes_view data) {
  auto given = std::make_shared<control::grants>();
  given->publish(published);
  control::guard uut{any_system(), given};
  auto all = data.size();
  return taken<control::breach>([&] {
    while (!data.empty()) {
      auto room = uut.room();
      require(!room.empty(), "there is room");
      require(room.size() <= std::max<size_t>(4096, 2 * all),
              "memory is taken for what has come");
      auto piece = take_bytes(data, room.size());
      std::ranges::copy(std::as_bytes(piece),
                        reinterpret_cast<std::byte*>(room.data()));
      uut.came(piece.size());
    }
    require(uut.ready() <= all, "nothing is added");
  });
}

inputs entry_seeds(std::string_view format) {
  if (format == "opening")
    return {{"control", "TRPC" + std::string(32, 'x') + "more"},
            {"tensors", "TRPH" + std::string(32, 'x')}};
  if (format == "answer")
    return {{"accepted", "Y"}};
  if (format != "basp")
    return {};
  auto hello =
    basp_frame({message_type::client_handshake, 0, 0, 0, 0, 0}, any_node_id());
  auto between = [](caf::io::basp::header head, auto... more) {
    return basp_frame(head, any_node_id(), any_system().node(), more...);
  };
  return {
    {"hello", hello + message_to_published(std::string{"hello"})},
    {"error", hello + message_to_published(caf::make_error(
                        caf::sec::runtime_error, std::string{"why"}))},
    {"handle", hello + message_to_published(caf::strong_actor_ptr{}, 1.5)},
    {"monitor",
     hello + between({message_type::monitor_message, 0, 0, 0, 0, published})},
    {"down", hello + between({message_type::down_message, 0, 0, 0, 3, 0},
                             caf::error{})},
    {"heartbeat", hello + basp_frame({message_type::heartbeat, 0, 0, 0, 0, 0})},
  };
}

} // namespace troupe::fuzz
