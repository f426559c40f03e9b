#include "messages/transport/tls/chain_verdict.hpp"

namespace troupe::transport {

namespace {

chain_fault fault_of(int code) {
  switch (code) {
  case X509_V_OK:
    return chain_fault::none;
  case X509_V_ERR_CERT_HAS_EXPIRED:
    return chain_fault::expired;
  case X509_V_ERR_CERT_NOT_YET_VALID:
    return chain_fault::not_yet_valid;
  case X509_V_ERR_INVALID_PURPOSE:
    return chain_fault::purpose;
  case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
  case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
  case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
  case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
  case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
  case X509_V_ERR_CERT_SIGNATURE_FAILURE: // Another CA of the same name.
    return chain_fault::other_issuer;
  default:
    return chain_fault::other;
  }
}

} // namespace

chain_verdict verify_chain(X509_STORE_CTX* context, std::time_t now) {
  X509_VERIFY_PARAM_set_time(X509_STORE_CTX_get0_param(context), now);
  chain_verdict out;
  auto believed = X509_verify_cert(context) == 1;
  auto code = X509_STORE_CTX_get_error(context);
  if (!believed && code == X509_V_OK)
    code = X509_V_ERR_UNSPECIFIED;
  out.fault = fault_of(believed ? X509_V_OK : code);
  out.words = X509_verify_cert_error_string(code);
  const auto* at = X509_STORE_CTX_get_current_cert(context);
  const auto* first = X509_STORE_CTX_get0_cert(context);
  out.is_first = at == nullptr || X509_STORE_CTX_get_error_depth(context) == 0;
  out.at = facts_of(out.is_first ? first : at);
  return out;
}

std::string dates_text(const chain_verdict& verdict, std::time_t now) {
  return (verdict.fault == chain_fault::expired
            ? "expired on " + date_text(verdict.at.not_after)
            : "is valid only from " + date_text(verdict.at.not_before)) +
         ", and this machine's clock says " + date_text(now);
}

} // namespace troupe::transport
