#include "actors/control/door.hpp"

#include "messages/transport/tls/tls_session.hpp"

#include <caf/all.hpp>
#include <caf/io/all.hpp>

#include <atomic>
#include <optional>
#include <utility>

namespace troupe::control {

namespace {

/// Gives CAF's broker the connections that an acceptor has let in. It listens
/// to nothing itself.
class inner_doorman final : public caf::io::doorman {
public:
  inner_doorman(caf::actor_system& system, uint16_t port, grants_ptr given,
                breach_told tells)
    : doorman(next_handle()), system_(system), port_(port),
      given_(std::move(given)), tells_(std::move(tells)) {
    // nop
  }

  /// Any thread.
  void enter(transport::guest who) {
    auto its = std::make_shared<transport::guest>(std::move(who));
    multiplexer_of(system_).post(
      [self = caf::intrusive_ptr<inner_doorman>{this}, its] {
        self->introduce(std::move(*its));
      });
  }

  bool new_connection() override { return false; }

  void launch() override {}

  void graceful_shutdown() override { detach(&multiplexer_of(system_), false); }

  std::string addr() const override { return ""; }

  uint16_t port() const override { return port_; }

  void add_to_loop() override {}

  void remove_from_loop() override {}

private:
  // CAF knows doormen by numbers, which are descriptors elsewhere.
  static caf::io::accept_handle next_handle() {
    static std::atomic<int64_t> last = int64_t{1} << 40;
    return caf::io::accept_handle::from_int(++last);
  }

  void introduce(transport::guest who) {
    if (detached()) // The broker has closed it meanwhile.
      return;
    auto tells = [tells = tells_, from = who.from](const std::string& why) {
      if (tells)
        tells(from + " sent " + why);
    };
    std::optional<shown_certificate> shown;
    if (const auto* its = who.certified())
      shown = {its->name(), its->roles()};
    auto next = make_connection(
      system_, {std::move(who.line),
                std::make_unique<guard>(system_, given_, std::move(shown)),
                std::move(tells)});
    auto handle = next->hdl();
    parent()->add_scribe(std::move(next));
    doorman::new_connection(&multiplexer_of(system_), handle);
  }

  caf::actor_system& system_;
  uint16_t port_;
  grants_ptr given_;
  breach_told tells_;
};

} // namespace

door::door(caf::actor_system& system, door_parts parts)
  : system_(system), parts_(std::move(parts)) {
  parts_.given->publish(parts_.published->id());
  auto port = parts_.acceptor->port();
  auto inner =
    caf::make_counted<inner_doorman>(system_, port, parts_.given, parts_.tells);
  caf::anon_send(broker_of(system_), caf::publish_atom_v,
                 caf::io::doorman_ptr{inner}, port, parts_.published,
                 parts_.types);
  parts_.acceptor->lead_to(
    transport::purpose::control,
    [inner](transport::guest who) { inner->enter(std::move(who)); });
}

door::~door() {
  parts_.acceptor->lead_to(transport::purpose::control, nullptr);
  caf::anon_send(broker_of(system_), caf::unpublish_atom_v,
                 caf::actor_cast<caf::actor_addr>(parts_.published),
                 parts_.acceptor->port());
}

} // namespace troupe::control
