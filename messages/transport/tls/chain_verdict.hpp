#pragma once
// What OpenSSL says of a chain of certificates. Pure functions; any thread.

#include "messages/transport/tls/certificate.hpp"

#include <ctime>

namespace troupe::transport {

enum class chain_fault : uint8_t {
  none,
  expired,
  not_yet_valid,
  other_issuer, ///< No CA that is believed has issued it.
  purpose,      ///< Made for something else, by its extended key usage.
  other
};

struct chain_verdict {
  chain_fault fault = chain_fault::none;
  certificate_facts at; ///< The certificate at fault.
  bool is_first = true; ///< It is the node's own, not that of a CA above it.
  std::string words;    ///< OpenSSL's.
};

/// Verifies the chain in `context` at a time in s since 1970.
chain_verdict verify_chain(X509_STORE_CTX* context, std::time_t now);

/// "expired on DATE", for the faults that are about dates; `now` is the time of
/// the clock that found them.
std::string dates_text(const chain_verdict& verdict, std::time_t now);

} // namespace troupe::transport
