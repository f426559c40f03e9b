#pragma once
// Whether to believe the certificate that the other end of a connection shows.
// OpenSSL calls it during the handshake of a session, which owns it.

#include "messages/transport/tls/certificate.hpp"

#include <string>
#include <vector>

namespace troupe::transport {

struct tls_material;

/// Who the other end of a connection has shown himself to be.
struct tls_peer {
  bool shown = false; ///< There was a certificate, and it is believed.
  certificate_facts certificate; ///< Only if it was shown.

  const std::string& name() const { return certificate.name; }
  const std::vector<std::string>& roles() const { return certificate.roles; }
  const std::string& fingerprint() const { return certificate.fingerprint; }
};

struct peer_check {
  const tls_material* material = nullptr;
  std::string host;    ///< Whom this end dials; empty: it has accepted.
  tls_peer peer;       ///< Once the certificate is believed.
  std::string refusal; ///< The line that says why it is not.
};

/// For SSL_CTX_set_cert_verify_callback. The SSL's application data is a
/// `peer_check`. It sets the error from which OpenSSL takes the alert that
/// tells the other end: one for each reason, see alerts.hpp.
int check_peer(X509_STORE_CTX* context, void*) noexcept;

} // namespace troupe::transport
