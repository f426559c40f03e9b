#pragma once
// A worker's end and a server's end in real threads, with any kind of path
// between them. Owned by a test, used on its thread.

#include "actors/admission/path_listener.hpp"
#include "actors/links/chunk_channel.hpp"
#include "actors/links/framed_link.hpp"
#include "actors/links/gateway.hpp"
#include "actors/links/local_link.hpp"
#include "actors/links/path_channel.hpp"
#include "actors/runtime/inline_execution.hpp"
#include "actors/runtime/spawning.hpp"
#include "actors/session/path_choice.hpp"
#include "messages/transport/wire/meeting.hpp"

#include <catch2/catch_test_macros.hpp>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace troupe::test {

inline constexpr auto long_enough = std::chrono::seconds(60);

/// Polls until the condition holds; false if it does not in time.
inline bool eventually(const std::function<bool()>& done) {
  auto end = std::chrono::steady_clock::now() + long_enough;
  while (!done()) {
    if (std::chrono::steady_clock::now() > end)
      return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

/// The number of files that this process has open.
inline size_t open_files() {
  size_t out = 0;
  for ([[maybe_unused]] const auto& one :
       std::filesystem::directory_iterator{"/proc/self/fd"})
    ++out;
  return out;
}

inline size_t threads_of_this() {
  size_t out = 0;
  for ([[maybe_unused]] const auto& one :
       std::filesystem::directory_iterator{"/proc/self/task"})
    ++out;
  return out;
}

/// Bytes determined by the seed, so that a receiver can check them. As float32
/// and as float64 they are finite, as gradients should be.
inline void fill(std::span<std::byte> bytes, uint64_t seed) {
  auto x = seed * 0x9e3779b97f4a7c15 + 1;
  size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) {
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    auto finite = x & 0xbfff'ffff'bfff'ffff;
    std::memcpy(bytes.data() + at, &finite, 8);
  }
  for (; at < bytes.size(); ++at)
    bytes[at] = static_cast<std::byte>(seed + at);
}

inline payload seeded(payload_shape shape, uint64_t seed) {
  payload_buffer out{shape};
  fill(out.bytes(), seed);
  return std::move(out).seal();
}

inline bool is_seeded(const payload& x, uint64_t seed) {
  payload_buffer same{x.shape()};
  fill(same.bytes(), seed);
  return x && std::ranges::equal(x.host_bytes(), same.bytes());
}

/// What the double of the server has received.
struct server_log {
  std::mutex mutex;
  std::vector<payload> held; ///< Gradients, when it keeps them.
  uint64_t damaged = 0;      ///< Gradients that differ from what was sent.
  uint64_t arrived = 0;
  uint64_t scores = 0;
  std::vector<uint64_t> numbers; ///< Their numbers.
  bool keeps = false;
  bool holds = false; ///< Does not answer pushes.
  std::vector<caf::typed_response_promise<release_header, payload>> open;
  /// The answer to a push; the gradient itself if empty.
  std::function<caf::result<release_header, payload>(const push_header&,
                                                     const payload&)>
    answer;

  void keep(uint64_t number, const payload& gradient) {
    if (held.size() == 3) {
      held.erase(held.begin());
      numbers.erase(numbers.begin());
    }
    held.push_back(gradient);
    numbers.push_back(number);
  }

  uint64_t count() {
    std::lock_guard guard{mutex};
    return arrived;
  }
};

inline parameter_server_actor make_server(caf::actor_system& system,
                                          std::shared_ptr<server_log> log) {
  return system.spawn([log](parameter_server_actor::pointer self)
                        -> parameter_server_actor::behavior_type {
    using weights = caf::result<release_header, payload>;
    return {
      [log, self](push_atom, const push_header& header,
                  const payload& gradient) -> weights {
        std::lock_guard guard{log->mutex};
        ++log->arrived;
        if (!is_seeded(gradient, header.samples))
          ++log->damaged;
        if (log->keeps)
          log->keep(header.samples, gradient);
        if (log->holds) {
          log->open.push_back(
            self->make_response_promise<release_header, payload>());
          return log->open.back();
        }
        if (log->answer)
          return log->answer(header, gradient);
        return {release_header{version{header.samples}, life_number{1}, {}},
                gradient};
      },
      [](pull_atom, const pull_header& header) -> weights {
        return {release_header{version{header.abandoned.value},
                               life_number{1},
                               {{lease_id{7}, 1, 2, 3}}},
                payload{}};
      },
      [log](watch_atom, const watch_request& request)
        -> caf::result<watch_header, payload> {
        std::lock_guard guard{log->mutex};
        if (log->held.empty())
          return caf::make_error(errc::shutting_down, std::string{"over"});
        return {watch_header{request.after, true}, log->held.back()};
      },
      [log](score_atom, const score&) {
        std::lock_guard guard{log->mutex};
        ++log->scores;
      },
    };
  });
}

/// Makes the server of a rig.
using server_maker = std::function<parameter_server_actor(caf::actor_system&)>;

class rig {
public:
  explicit rig(std::string kind, payload_shape shape,
               const server_maker& make = {})
    : kind_(std::move(kind)), shape_(shape), system_(config_) {
    server_ = make ? make(system_) : make_server(system_, log);
    coordinator_ = system_.spawn(
      [](coordinator_actor::pointer) -> coordinator_actor::behavior_type {
        return {
          [](register_atom, const registration_request&, const worker_actor&) {
            return registration{};
          },
          [](register_atom, const evaluator_actor&) { return life_number{1}; },
          [](leave_atom, worker_id, life_number, const std::string&) {},
          [](detach_atom, const worker_actor&) {},
          [](detach_atom, worker_id, life_number, const std::string&) {},
          [](join_atom) {},
          [](ending_atom) {},
          [](ended_atom, const run_end&) {},
          [](ended_atom, version, const std::vector<push_id>&, const payload&) {
          },
          [](fetch_atom) -> last_version {
            return caf::make_error(errc::shutting_down);
          },
          [](credit_atom) {},
          [](tick_atom) {},
        };
      });
    if (framed())
      listen();
  }

  ~rig() {
    if (acceptor_)
      acceptor_->close();
    for (const auto& who : ends_)
      caf::anon_send_exit(who, caf::exit_reason::kill);
    caf::anon_send_exit(server_, caf::exit_reason::kill);
    caf::anon_send_exit(coordinator_, caf::exit_reason::kill);
  }

  bool framed() const { return kind_ != "inproc" && kind_ != "chunked"; }

  /// A link, connected.
  parameter_server_actor connect() {
    if (kind_ == "inproc")
      return keep(spawn_local_link(system_, server_));
    make_gateway();
    if (framed())
      return tie(path_choice{kind_, {memory}, {}}.connect(invite(gateway),
                                                          address(), {shape_}),
                 gateway);
    return tie(make_chunk_channel(shape_, gateway), gateway);
  }

  gateway_actor make_gateway() {
    gateway = keep(spawn<gateway_actor, gateway_state>(
      system_, placement::scheduled,
      gateway_parts{server_, coordinator_, shape_}));
    return gateway;
  }

  /// How the peer of this gateway connects its path.
  proto::PathOffer invite(const gateway_actor& peer) {
    proto::PathOffer out;
    if (kind_ != "shm")
      out.set_stream_port(acceptor_->port());
    if (kind_ == "shm")
      out.set_shm_name(acceptor_->name());
    out.set_token(transport::random_token());
    caf::anon_send(listener_, enlist_atom_v, out.token(), peer);
    return out;
  }

  /// Where the server takes connections.
  config::address address() const { return {"127.0.0.1", acceptor_->port()}; }

  /// The worker's half of a connected path.
  parameter_server_actor tie(transport::path_ptr way,
                             const gateway_actor& peer) {
    return tie(make_path_channel(std::move(way)), peer);
  }

  parameter_server_actor tie(frame_channel_ptr channel,
                             const gateway_actor& peer) {
    auto link = keep(spawn<framed_link_actor, framed_link_state>(
      system_, placement::scheduled, peer, std::move(channel), shape_));
    attach(link);
    return link;
  }

  template <class Handle>
  Handle keep(Handle who) {
    ends_.push_back(caf::actor_cast<caf::actor>(who));
    return who;
  }

  caf::actor_system& system() { return system_; }
  const payload_shape& shape() const { return shape_; }
  const parameter_server_actor& server() const { return server_; }
  size_t actors() { return system_.registry().running(); }

  std::shared_ptr<server_log> log = std::make_shared<server_log>();
  /// The actor systems of the worker and of the server.
  std::shared_ptr<transport::shared_memory> memory =
    std::make_shared<transport::shared_memory>();
  std::shared_ptr<transport::shared_memory> servers_memory =
    std::make_shared<transport::shared_memory>();
  gateway_actor gateway; ///< Of the newest link.

private:
  struct two_threads : caf::actor_system_config {
    two_threads() { allow_inline_execution(*this, 2); }
  };

  void listen() {
    transport::acceptor_terms terms;
    terms.host = "127.0.0.1";
    acceptor_ = std::make_shared<transport::acceptor>(std::move(terms));
    listener_ = keep(spawn<path_listener_actor, path_listener_state>(
      system_, placement::scheduled,
      path_listener_parts{acceptor_, server_, shape_, servers_memory}));
  }

  void attach(const parameter_server_actor& link) {
    caf::scoped_actor self{system_};
    self->request(gateway, long_enough, attach_atom_v, link)
      .receive([](const coordinator_actor&) {},
               [](const caf::error& why) { FAIL(caf::to_string(why)); });
  }

  bool ready_ = (init_messages(), true);
  std::string kind_;
  payload_shape shape_;
  two_threads config_;
  caf::actor_system system_;
  parameter_server_actor server_;
  coordinator_actor coordinator_;
  std::shared_ptr<transport::acceptor> acceptor_;
  path_listener_actor listener_;
  std::vector<caf::actor> ends_;
};

inline push_header numbered(uint64_t number) {
  push_header out;
  out.id = {worker_id{1}, life_number{1}, sequence{number}};
  out.samples = number;
  out.loss = 5e-324;
  return out;
}

/// The result of a request.
struct outcome {
  std::optional<release_header> header;
  payload weights;
  std::optional<caf::error> error;

  bool lost() const { return error && *error == errc::peer_lost; }
};

} // namespace troupe::test
