#pragma once
// How a node connects to another: it says what for and shows a secret, the
// opening, and waits until the acceptor there has let it in. The functions
// block; any thread may call them.

#include "config/values/address.hpp"
#include "messages/transport/wire/opening.hpp"
#include "messages/transport/wire/socket.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace troupe::transport {

/// Random bytes that nobody can guess: the secret of an opening.
std::string random_token();

/// A random name, as text.
std::string random_name();

/// Connects to that of a host's addresses that answers first: they are tried in
/// the order in which the system names them, each a little later than the one
/// before, or when that has failed. Throws `path_error`: the name does not
/// resolve, there is no way to the host, or nobody answers there within
/// `patience` seconds.
/// @param leaves_host Whether an address beyond loopback is allowed.
descriptor connect_to(const std::string& host, uint16_t port, double patience,
                      bool leaves_host);

/// Connects to an abstract Unix socket of a process of the same user.
descriptor connect_unix(const std::string& name);

/// The node there does not let this one in. `for_good`: nor will it later.
class refused_entry : public path_error {
public:
  refused_entry(const std::string& why, bool for_good)
    : path_error(why), for_good(for_good) {
    // nop
  }

  bool for_good;
};

class tls_identity;

/// What a node shows where it connects, and by what it knows the other end.
struct credentials {
  std::shared_ptr<tls_identity> identity{}; ///< Null: nothing is encrypted.
  std::string proof{}; ///< That it has the run's token; empty: it has none.
  /// Whether everybody on the network may be trusted.
  bool trusts_network = false;

  /// Whether connections may go beyond loopback.
  bool leaves_host() const { return identity || trusts_network; }
};

/// Opens a connection, and waits up to `patience` seconds until it is accepted.
/// Throws `path_error`; `refused_entry` with the line of the node there.
void open_line(socket& line, purpose wants, const std::string& secret,
               double patience);

/// Connects to the port of another node over the network, encrypted where the
/// credentials have an identity. Waits at most `patience` seconds for each
/// step. Throws `path_error`.
/// @param buffers As for `socket`.
socket connect_securely(const config::address& to, const credentials& with,
                        double patience, int buffers = socket::buffer_bytes);

} // namespace troupe::transport
