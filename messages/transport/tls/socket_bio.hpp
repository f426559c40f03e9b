#pragma once
// How OpenSSL reads and writes a socket of ours.

#include "messages/transport/tls/openssl.hpp"

namespace troupe::transport {

/// Over a connected socket that stays the caller's. It never waits, whether or
/// not the socket does, and raises no SIGPIPE where OpenSSL's own would, since
/// that calls `write`. Null without memory.
bio_ptr make_socket_bio(int fd);

} // namespace troupe::transport
