#pragma once
// Network addresses as settings name them. Names are not looked up. Plain
// values.

#include <cstdint>
#include <string>
#include <string_view>

namespace troupe::config {

/// HOST:PORT.
struct address {
  std::string host;
  uint16_t port = 0;

  bool operator==(const address&) const = default;
};

/// Reads HOST:PORT; an IPv6 host stands in brackets. Throws `bad_value`.
address parse_address(std::string_view text);

/// Reads HOST or HOST:PORT; without a port that is 0. An IPv6 host needs
/// brackets only before a port. Throws `bad_value`.
address parse_host(std::string_view text);

/// "10.0.0.1:4242", "[::1]:4242"
std::string to_string(const address& where);

/// Whether only this machine can reach `host`: 127.0.0.0/8, ::1, localhost. Any
/// other name counts as reachable, because it may resolve to any address.
bool is_loopback(std::string_view host);

/// Whether who listens at `host` listens at all addresses: 0.0.0.0, ::.
bool is_any_host(std::string_view host);

/// The reason why an address beyond loopback is refused without
/// `insecure-network`, for an error line.
inline constexpr const char* open_to_all =
  "is no loopback address, and connections are neither encrypted nor "
  "authenticated: give --tls-dir or --token-file with --tls-ca "
  "(docs/security.md), use 127.0.0.1, or give --insecure-network if everybody "
  "on that network may be trusted";

/// The reason why NCCL is not used beyond loopback without `insecure-network`,
/// for a line.
inline constexpr const char* open_nccl =
  "NCCL's own connections between hosts are not encrypted; add "
  "--insecure-network if everybody on that network may be trusted";

/// Checks an address that does not come from this node's own settings. Throws
/// `usage_error` if only `insecure-network` would allow it.
/// @param from Who names it, for the error line.
void require_loopback(const address& where, const std::string& from);

} // namespace troupe::config
