#pragma once
// The alerts with which one end of TLS tells the other why it ends a
// connection, and lines for them. Pure functions; any thread.

#include "messages/transport/tls/openssl.hpp"

#include <string>

namespace troupe::transport {

struct tls_material;

/// OpenSSL turns these errors of verification into alerts. Each reason has an
/// alert of its own, so that the other end can say what is wrong.
namespace error_for {
inline constexpr int dates = X509_V_ERR_CERT_HAS_EXPIRED;
inline constexpr int issuer = X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY;
inline constexpr int host = X509_V_ERR_HOSTNAME_MISMATCH;
inline constexpr int use = X509_V_ERR_INVALID_PURPOSE; ///< Or its role.
inline constexpr int pin = X509_V_ERR_UNHANDLED_CRITICAL_EXTENSION;
inline constexpr int anything_else = X509_V_ERR_APPLICATION_VERIFICATION;
} // namespace error_for

/// The line for an alert that the other end has sent. @param dials Whether this
/// end has dialled.
std::string line_for_alert(int alert, const tls_material& ours, bool dials);

/// The line for a `reason` of OpenSSL's for which this end gives up; empty for
/// one that has none of its own.
std::string line_for_reason(int reason);

} // namespace troupe::transport
