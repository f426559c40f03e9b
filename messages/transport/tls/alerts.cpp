#include "messages/transport/tls/alerts.hpp"

#include "messages/transport/tls/first_bytes.hpp"
#include "messages/transport/tls/tls_material.hpp"

#include <openssl/sslerr.h>

namespace troupe::transport {

namespace {

const std::string none_shown =
  "showed no certificate, and one is needed: give it a folder of trainer_node "
  "pki issue as --tls-dir";

std::string ours_text(const tls_material& ours) {
  return "our certificate " + ours.terms.cert.string() + " (" +
         title_of(*ours.own) + ")";
}

/// The other end's clock says that we are outside of our dates.
std::string line_for_dates(const tls_material& ours) {
  auto now = ours.now();
  const auto& own = *ours.own;
  auto valid = now >= own.not_before && now <= own.not_after;
  return "the other end says that " + ours_text(ours) +
         " has expired or is not yet valid: it is valid from " +
         date_text(own.not_before) + " until " + date_text(own.not_after) +
         ", and this machine's clock says " + date_text(now) +
         (valid ? ", so one of the two clocks is wrong"
                : ": renew it (trainer_node pki renew)");
}

/// Alerts that only who dials has a reason to send: he knows whom he wants.
std::string line_for_server(int alert, const tls_material& ours) {
  switch (alert) {
  case SSL_AD_BAD_CERTIFICATE:
    return "the other end has dialled another name than those of " +
           ours_text(ours) + ", which is for " + hosts_text(*ours.own) +
           ": it must dial one of these, or the certificate be issued again "
           "with --host";
  case SSL_AD_CERTIFICATE_UNKNOWN:
    return "the other end knows a server by --tls-pin, and does not mean " +
           ours_text(ours) + ": give it " + ours.own->fingerprint;
  default:
    return {};
  }
}

std::string line_for_own(int alert, const tls_material& ours) {
  switch (alert) {
  case SSL_AD_CERTIFICATE_EXPIRED:
    return line_for_dates(ours);
  case SSL_AD_UNKNOWN_CA:
    return "the other end does not know the CA of " + ours_text(ours) +
           ": issue it with the CA that the other end has, or add ours to its "
           "ca.crt";
  case SSL_AD_UNSUPPORTED_CERTIFICATE:
    return "the other end does not accept the role of " + ours_text(ours) +
           ", which is " + roles_text(*ours.own) +
           ", or its extended key usage: a server needs the role ps and "
           "serverAuth, who dials it some role and clientAuth";
  case SSL_AD_BAD_CERTIFICATE:
  case SSL_AD_CERTIFICATE_UNKNOWN:
    return "the other end does not accept " + ours_text(ours) +
           ": its own line says why";
  case SSL_AD_DECRYPT_ERROR:
    return "the other end could not verify what was signed with the key of " +
           ours_text(ours);
  default:
    return {};
  }
}

} // namespace

std::string line_for_alert(int alert, const tls_material& ours, bool dials) {
  std::string line;
  if (ours.own && !dials)
    line = line_for_server(alert, ours);
  if (ours.own && line.empty())
    line = line_for_own(alert, ours);
  if (!line.empty())
    return line;
  switch (alert) {
  case SSL_AD_CERTIFICATE_REQUIRED:
    return "this node " + none_shown;
  case SSL_AD_HANDSHAKE_FAILURE:
    return "the other end ended the TLS handshake: both must have a cipher in "
           "common, and with TLS 1.2 a certificate that it asks for must be "
           "shown; its own line says which";
  case SSL_AD_PROTOCOL_VERSION:
    return "the other end takes only other versions of TLS: give both ends the "
           "same --tls-min";
  case SSL_AD_NO_APPLICATION_PROTOCOL:
    return not_tls_line;
  case SSL_AD_USER_CANCELLED:
  case SSL_AD_INTERNAL_ERROR:
    return "the other end gave up the TLS connection: its own line says why";
  default:
    return "the other end ended the TLS connection (" +
           std::string{SSL_alert_desc_string_long(alert)} +
           "): its own line says why";
  }
}

std::string line_for_reason(int reason) {
  switch (reason) {
  case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
    return "the other end " + none_shown;
  case SSL_R_WRONG_VERSION_NUMBER:
  case SSL_R_HTTP_REQUEST:
  case SSL_R_HTTPS_PROXY_REQUEST:
  case SSL_R_PACKET_LENGTH_TOO_LONG:
  case SSL_R_BAD_RECORD_TYPE:
    return not_tls_line;
  case SSL_R_UNSUPPORTED_PROTOCOL:
  case SSL_R_VERSION_TOO_LOW:
  case SSL_R_WRONG_SSL_VERSION:
    return "the other end speaks only an older version of TLS: --tls-min 1.2 "
           "lets 1.2 in";
  case SSL_R_NO_SHARED_CIPHER:
  case SSL_R_NO_SUITABLE_KEY_SHARE:
  case SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM:
    return "the other end has no cipher, key or signature in common with this "
           "one: ECDSA P-256 and RSA of 2048 bits are always right";
  case SSL_R_EXCESSIVE_MESSAGE_SIZE:
    return "the other end sent a message of the TLS handshake that is larger "
           "than any right one: does it show too long a chain of "
           "certificates?";
  default:
    return {};
  }
}

} // namespace troupe::transport
