#pragma once
// What a certificate says: whose it is, for which hosts, in which roles, and
// until when. Pure functions; any thread.

#include "messages/transport/tls/openssl.hpp"

#include <array>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::transport {

/// Who may have a certificate. A URI among its alternative names says so:
/// "troupe-role:worker".
inline constexpr std::array<std::string_view, 4> member_roles{
  "ps", "worker", "evaluator", "operator"};

inline constexpr std::string_view role_prefix = "troupe-role:";

inline constexpr std::time_t seconds_of_day = 86'400;

struct certificate_facts {
  std::string name;   ///< Its common name, or else its whole subject.
  std::string issuer; ///< The same of who issued it.
  /// Names and addresses of its host, as users write them.
  std::vector<std::string> hosts;
  std::vector<std::string> roles; ///< Of `member_roles`; others are left out.
  std::time_t not_before = 0;     ///< s since 1970
  std::time_t not_after = 0;
  bool is_authority = false; ///< May issue others.
  std::string fingerprint;   ///< SHA-256 of its DER form, in hex.

  bool has_role(std::string_view role) const;
};

/// All text in it is fit for a line: it may come from a stranger.
certificate_facts facts_of(const X509* certificate);

/// "'worker-1' of 'Troupe CA 1a2b'"
std::string title_of(const certificate_facts& facts);

/// "ps and worker"; "none".
std::string roles_text(const certificate_facts& facts);

/// "a, b and 2 more"; "no host".
std::string hosts_text(const certificate_facts& facts);

/// "2026-11-29 14:05 UTC"
std::string date_text(std::time_t when);

/// Whether it is for a host, which is a name or an address without brackets:
/// the alternative names count, the common name does not.
bool is_for_host(X509* certificate, const std::string& host);

/// A fingerprint as `certificate_facts` has it, from 64 hex digits in any case,
/// with or without colons; empty for anything else.
std::string parse_fingerprint(std::string_view text);

} // namespace troupe::transport
