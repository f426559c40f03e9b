#include "actors/control/connection.hpp"

#include "messages/transport/chunked/chunked.hpp"
#include "messages/transport/tls/tls_session.hpp"

#include <caf/all.hpp>
#include <caf/io/basp_broker.hpp>
#include <caf/io/middleman.hpp>
#include <caf/io/network/stream_impl.hpp>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

namespace troupe::control {

namespace {

using caf::io::network::native_socket;
using caf::io::network::rw_state;

/// Actors of a node that CAF remembers, and bytes that wait until it reads
/// them, besides a tensor in chunks for each actor that it may address. A node
/// that lets them grow beyond is not one of ours.
constexpr size_t most_actors = 10'000;
constexpr size_t most_unread = 32u << 20;

constexpr size_t in_chunks = transport::default_window_bytes;

/// Messages between two looks at the number of actors.
constexpr size_t look_pace = 256;

size_t known_actors(caf::actor_system& system, const caf::node_id& node) {
  auto broker = broker_of(system);
  auto* its = caf::actor_cast<caf::abstract_actor*>(broker);
  return dynamic_cast<caf::io::basp_broker&>(*its).proxies().count_proxies(
    node);
}

/// For each node CAF keeps an actor that asks it what it can start, even when
/// the node has gone.
void forget_asker(caf::io::abstract_broker* broker, const caf::node_id& node) {
  auto& all = dynamic_cast<caf::io::basp_broker&>(*broker).spawn_servers;
  auto found = all.find(node);
  if (found == all.end())
    return;
  caf::anon_send_exit(found->second, caf::exit_reason::user_shutdown);
  all.erase(found);
}

/// CAF tries again later where nothing could be done now.
rw_state done_state(ssize_t done, size_t& count) {
  count = done > 0 ? static_cast<size_t>(done) : 0;
  auto waits =
    done < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
  return done >= 0 || waits ? rw_state::success : rw_state::failure;
}

/// How CAF reads and writes.
class line_policy {
public:
  line_policy(caf::actor_system& system, connection_terms terms)
    : system_(system), tls_(std::move(terms.line.tls)),
      guard_(std::move(terms.watched_by)), tells_(std::move(terms.tells)) {
    // nop
  }

  rw_state read_some(size_t& count, native_socket fd, void* to, size_t size) {
    if (!guard_)
      return receive(fd, to, size, count);
    while (guard_->ready() == 0) {
      auto room = guard_->room();
      auto state = receive(fd, room.data(), room.size(), count);
      if (state != rw_state::success || count == 0)
        return state;
      if (!hear(count))
        return rw_state::failure;
    }
    count = guard_->take({static_cast<caf::byte*>(to), size});
    return rw_state::success;
  }

  rw_state write_some(size_t& count, native_socket fd, const void* from,
                      size_t size) {
    auto state = send_some(fd, from, size, count);
    if (guard_)
      guard_->goes({static_cast<const caf::byte*>(from), count});
    return state;
  }

  bool must_read_more(native_socket, size_t) {
    return (guard_ && guard_->ready() > 0) || (tls_ && tls_->pending());
  }

private:
  rw_state receive(native_socket fd, void* to, size_t size, size_t& count) {
    if (!tls_) {
      auto got = recv(fd, to, size, 0);
      return got == 0 ? rw_state::failure : done_state(got, count);
    }
    return with_tls(count, [&] {
      auto got = tls_->read({static_cast<std::byte*>(to), size});
      count = got.bytes;
      return !got.ended || count > 0;
    });
  }

  rw_state send_some(native_socket fd, const void* from, size_t size,
                     size_t& count) {
    if (!tls_)
      return done_state(send(fd, from, size, MSG_NOSIGNAL), count);
    return with_tls(count, [&] {
      count = tls_->write({static_cast<const std::byte*>(from), size}).bytes;
      return true;
    });
  }

  template <class Move>
  rw_state with_tls(size_t& count, Move move) try {
    return move() ? rw_state::success : rw_state::failure;
  } catch (const transport::path_error&) { // As where a socket breaks.
    count = 0;
    return rw_state::failure;
  }

  bool hear(size_t count) try {
    guard_->came(count);
    if (++heard_ % look_pace == 0 &&
        known_actors(system_, guard_->node()) > most_actors)
      throw breach("messages of more than " + std::to_string(most_actors) +
                   " actors");
    return true;
  } catch (const breach& err) {
    if (tells_)
      tells_(err.what());
    return false;
  }

  caf::actor_system& system_;
  std::shared_ptr<transport::tls_session> tls_;
  std::unique_ptr<guard> guard_;
  breach_told tells_;
  size_t heard_ = 0;
};

using caf::io::network::default_multiplexer;

class connection final : public caf::io::scribe {
public:
  connection(caf::actor_system& system, native_socket line,
             connection_terms terms)
    : scribe(caf::io::network::conn_hdl_from_socket(line)),
      overflows_(terms.watched_by ? terms.tells : breach_told{}),
      guard_(terms.watched_by.get()),
      stream_(multiplexer_of(system), line,
              line_policy{system, std::move(terms)}) {
    // nop
  }

  void configure_read(caf::io::receive_policy::config config) override {
    stream_.configure_read(config);
    if (!std::exchange(launched_, true))
      stream_.start(this);
  }

  void ack_writes(bool enable) override { stream_.ack_writes(enable); }

  caf::byte_buffer& wr_buf() override { return stream_.wr_buf(); }

  caf::byte_buffer& rd_buf() override { return stream_.rd_buf(); }

  void graceful_shutdown() override {
    stream_.graceful_shutdown();
    detach(&stream_.backend(), false);
  }

  // What it asks and does not read would fill this process's memory.
  void flush() override {
    auto unread = stream_.wr_buf().size();
    if (guard_ && unread > most_unread &&
        unread > most_unread + guard_->granted() * in_chunks &&
        !std::exchange(is_cut_, true)) {
      if (overflows_)
        overflows_("nothing but requests, and has not read " +
                   std::to_string(unread) + " B of the answers");
      ::shutdown(stream_.fd(), SHUT_RDWR);
    }
    stream_.flush(this);
  }

  std::string addr() const override {
    auto out = caf::io::network::remote_addr_of_fd(stream_.fd());
    return out ? *out : "";
  }

  uint16_t port() const override {
    auto out = caf::io::network::remote_port_of_fd(stream_.fd());
    return out ? *out : uint16_t{0};
  }

  void add_to_loop() override { stream_.activate(this); }

  void remove_from_loop() override { stream_.passivate(); }

protected:
  void detach_from(caf::io::abstract_broker* broker) override {
    if (guard_ && guard_->node())
      forget_asker(broker, guard_->node());
    scribe::detach_from(broker);
  }

private:
  bool launched_ = false;
  breach_told overflows_;
  bool is_cut_ = false;
  const guard* guard_; ///< Of the stream's; or null.
  caf::io::network::stream_impl<line_policy> stream_;
};

} // namespace

default_multiplexer& multiplexer_of(caf::actor_system& system) {
  return dynamic_cast<default_multiplexer&>(system.middleman().backend());
}

caf::actor broker_of(caf::actor_system& system) {
  return caf::actor_cast<caf::actor>(
    system.middleman().named_broker<caf::io::basp_broker>("BASP"));
}

caf::io::scribe_ptr make_connection(caf::actor_system& system,
                                    connection_terms terms) {
  auto line = terms.line.fd.release();
  return caf::make_counted<connection>(system, line, std::move(terms));
}

} // namespace troupe::control
