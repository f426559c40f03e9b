#include "messages/transport/tls/peer_check.hpp"

#include "config/text/text.hpp"
#include "messages/transport/tls/alerts.hpp"
#include "messages/transport/tls/chain_verdict.hpp"
#include "messages/transport/tls/tls_material.hpp"

#include <openssl/crypto.h>

#include <exception>
#include <optional>

namespace troupe::transport {

namespace {

/// The line for the user, and the error that decides the alert.
struct refusal {
  std::string line;
  int error;
};

class peer_trial {
public:
  peer_trial(X509_STORE_CTX* context, const peer_check& check)
    : context_(context), check_(check), material_(*check.material),
      shown_(facts_of(X509_STORE_CTX_get0_cert(context))),
      who_("the other end's certificate, " + title_of(shown_) + ", ") {
    // nop
  }

  const certificate_facts& shown() const { return shown_; }

  std::optional<refusal> find_fault() {
    if (shown_.is_authority)
      return refusal{who_ +
                       "is that of a CA, which issues others: the other end "
                       "must show the certificate of its node (tls.crt)",
                     error_for::use};
    if (dials() && !material_.terms.pin.empty())
      return find_fault_of_pinned();
    if (auto fault = find_fault_in_chain())
      return fault;
    if (auto fault = find_fault_in_roles())
      return fault;
    if (dials() &&
        !is_for_host(X509_STORE_CTX_get0_cert(context_), check_.host))
      return refusal{who_ + "is for " + hosts_text(shown_) + ", and " +
                       config::in_quotes(check_.host) +
                       " was dialled: dial a name that it has, or issue it "
                       "again with --host " +
                       config::shown(check_.host),
                     error_for::host};
    return std::nullopt;
  }

private:
  bool dials() const { return !check_.host.empty(); }

  std::optional<refusal> find_fault_of_pinned() {
    const auto& pin = material_.terms.pin;
    if (CRYPTO_memcmp(pin.data(), shown_.fingerprint.data(), pin.size()) != 0)
      return refusal{who_ + "has the SHA-256 " + shown_.fingerprint +
                       ", and --tls-pin says " + pin +
                       ": if the first one is what trainer_node pki show "
                       "prints at the other end, give it here",
                     error_for::pin};
    auto now = material_.now();
    chain_verdict verdict{chain_fault::none, shown_, true, {}};
    if (now > shown_.not_after)
      verdict.fault = chain_fault::expired;
    if (now < shown_.not_before)
      verdict.fault = chain_fault::not_yet_valid;
    return fault_of_dates(verdict);
  }

  std::optional<refusal> find_fault_in_chain() {
    auto verdict = verify_chain(context_, material_.now());
    switch (verdict.fault) {
    case chain_fault::none:
      return std::nullopt;
    case chain_fault::expired:
    case chain_fault::not_yet_valid:
      return fault_of_dates(verdict);
    case chain_fault::other_issuer:
      return refusal{who_ + "was issued by '" + verdict.at.issuer +
                       "', which is not in " + material_.terms.ca.string() +
                       ": issue it with the CA of that file, or add its CA "
                       "there",
                     error_for::issuer};
    case chain_fault::purpose:
      return refusal{who_ + "is not made for " +
                       (dials() ? "servers" : "clients") +
                       ": its extended key usage needs " +
                       (dials() ? "serverAuth: issue it again with --role ps"
                                : "clientAuth: issue it again with --role "
                                  "worker"),
                     error_for::use};
    case chain_fault::other:
      break;
    }
    return refusal{who_ + "is not valid: " + verdict.words + "; issue it again",
                   error_for::anything_else};
  }

  std::optional<refusal> fault_of_dates(const chain_verdict& verdict) {
    if (verdict.fault == chain_fault::none)
      return std::nullopt;
    auto which = verdict.is_first ? who_
                                  : who_ + "cannot be believed: its CA '" +
                                      verdict.at.name + "' ";
    return refusal{which + dates_text(verdict, material_.now()) +
                     ": renew it (trainer_node pki renew), unless one of the "
                     "two clocks is wrong",
                   error_for::dates};
  }

  std::optional<refusal> find_fault_in_roles() {
    if (shown_.roles.empty())
      return refusal{who_ +
                       "says no role: its alternative names need a URI such "
                       "as " +
                       std::string{role_prefix} + (dials() ? "ps" : "worker") +
                       "; trainer_node pki issue --role adds it",
                     error_for::use};
    if (dials() && !shown_.has_role("ps"))
      return refusal{who_ + "has the role " + roles_text(shown_) +
                       " and not ps, which a server needs: issue it again "
                       "with --role ps, or dial a server",
                     error_for::use};
    return std::nullopt;
  }

  X509_STORE_CTX* context_;
  const peer_check& check_;
  const tls_material& material_;
  certificate_facts shown_;
  std::string who_;
};

int finish_check(X509_STORE_CTX* context, peer_check& check) {
  peer_trial trial{context, check};
  auto fault = trial.find_fault();
  if (!fault) {
    check.peer = {true, trial.shown()};
    X509_STORE_CTX_set_error(context, X509_V_OK);
    return 1;
  }
  check.refusal = fault->line;
  X509_STORE_CTX_set_error(context, fault->error);
  return 0;
}

} // namespace

int check_peer(X509_STORE_CTX* context, void*) noexcept try {
  auto* ssl = static_cast<SSL*>(
    X509_STORE_CTX_get_ex_data(context, SSL_get_ex_data_X509_STORE_CTX_idx()));
  return finish_check(context,
                      *static_cast<peer_check*>(SSL_get_app_data(ssl)));
} catch (const std::exception&) { // No memory.
  X509_STORE_CTX_set_error(context, X509_V_ERR_OUT_OF_MEM);
  return 0;
}

} // namespace troupe::transport
