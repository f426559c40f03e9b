#include "messages/transport/tls/tls_material.hpp"

#include "config/text/failure.hpp"
#include "messages/transport/tls/chain_verdict.hpp"
#include "messages/transport/tls/peer_check.hpp"
#include "messages/transport/tls/pem_files.hpp"

#include <openssl/err.h>
#include <sys/stat.h>

namespace troupe::transport {

namespace {

namespace fs = std::filesystem;

/// Days before the end from which on the user is warned.
constexpr int soon = 7;

/// Bytes of certificates that the other end may show.
constexpr long longest_chain = 64 << 10;

/// The weakest keys and signatures that are taken: 112 bits, RSA of 2048 bits.
/// Said here, since systems differ in their default.
constexpr int security_level = 2;

// AES of 128 bits is the fastest where the processor has instructions for it.
constexpr const char* ciphers_1_3 =
  "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";
constexpr const char* ciphers_1_2 = "ECDHE+AESGCM:ECDHE+CHACHA20:!aNULL:!PSK";

[[noreturn]] void refuse_own(const fs::path& path, const std::string& line) {
  ERR_clear_error();
  throw run_error(path.string() + ": " + line);
}

context_ptr make_context(const tls_terms& terms) {
  context_ptr out{SSL_CTX_new(TLS_method())};
  require_openssl(out != nullptr, "use TLS");
  auto* context = out.get();
  SSL_CTX_set_security_level(context, security_level);
  SSL_CTX_set_min_proto_version(context, terms.lowest == tls_version::v1_2
                                           ? TLS1_2_VERSION
                                           : TLS1_3_VERSION);
  require_openssl(SSL_CTX_set_ciphersuites(context, ciphers_1_3) == 1 &&
                    SSL_CTX_set_cipher_list(context, ciphers_1_2) == 1,
                  "choose ciphers");
  // Every connection has a handshake of its own, so nothing is kept of one.
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION |
                                 SSL_OP_NO_COMPRESSION |
                                 (terms.in_kernel ? SSL_OP_ENABLE_KTLS : 0));
  SSL_CTX_set_num_tickets(context, 0);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_max_cert_list(context, longest_chain);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE |
                              SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                              SSL_MODE_NO_AUTO_CHAIN);
  SSL_CTX_set_read_ahead(context, terms.in_kernel ? 0 : 1);
  SSL_CTX_set_cert_verify_callback(context, check_peer, nullptr);
  return out;
}

void believe(SSL_CTX* context, const fs::path& path) {
  auto* store = SSL_CTX_get_cert_store(context);
  for (const auto& each : read_certificates(path)) {
    auto facts = facts_of(each.get());
    if (X509_check_ca(each.get()) == 0)
      refuse_own(path, "'" + facts.name +
                         "' is no CA, so it can have issued nothing: name the "
                         "certificate of the CA (ca.crt)");
    require_openssl(X509_STORE_add_cert(store, each.get()) == 1,
                    "use a certificate of a CA");
  }
  // Also an intermediate CA may be the one that is believed.
  X509_STORE_set_flags(store, X509_V_FLAG_PARTIAL_CHAIN);
}

/// Its issuer, if there are CAs to believe, and its dates.
chain_verdict verify_own(SSL_CTX* context, const certificate_chain& chain,
                         bool knows_issuers, std::time_t now) {
  struct openssl_free<X509_STORE_CTX_free> release;
  std::unique_ptr<X509_STORE_CTX, decltype(release)> check{
    X509_STORE_CTX_new()};
  // The chain is not owned by the stack.
  std::unique_ptr<STACK_OF(X509), void (*)(STACK_OF(X509)*)> others{
    sk_X509_new_null(), [](STACK_OF(X509) * all) {
      sk_X509_free(all);
    }};
  for (const auto& each : chain)
    sk_X509_push(others.get(), each.get());
  std::unique_ptr<X509_STORE, openssl_free<X509_STORE_free>> itself;
  auto* store = SSL_CTX_get_cert_store(context);
  if (!knows_issuers) {
    itself.reset(X509_STORE_new());
    X509_STORE_add_cert(itself.get(), chain.front().get());
    X509_STORE_set_flags(itself.get(), X509_V_FLAG_PARTIAL_CHAIN);
    store = itself.get();
  }
  require_openssl(X509_STORE_CTX_init(check.get(), store, chain.front().get(),
                                      others.get()) == 1,
                  "verify a certificate");
  auto out = verify_chain(check.get(), now);
  ERR_clear_error();
  return out;
}

void require_believed(const tls_terms& terms, const chain_verdict& verdict,
                      std::time_t now) {
  auto which =
    verdict.is_first ? "" : "the CA '" + verdict.at.name + "' in its chain ";
  switch (verdict.fault) {
  case chain_fault::none:
    return;
  case chain_fault::expired:
  case chain_fault::not_yet_valid:
    refuse_own(terms.cert,
               which + dates_text(verdict, now) +
                 (verdict.fault == chain_fault::expired
                    ? ": renew it (trainer_node pki renew), or set the clock "
                      "right if that is wrong"
                    : ": wait until then, or set the clock right if that is "
                      "wrong"));
  case chain_fault::other_issuer:
    refuse_own(terms.cert, "was issued by '" + verdict.at.issuer +
                             "', which is not in " + terms.ca.string() +
                             ": take both files from one CA, or add the "
                             "certificates between the two to the first file");
  default:
    refuse_own(terms.cert,
               which + "is not valid: " + verdict.words + "; issue it again");
  }
}

void require_node(const fs::path& path, const certificate_facts& facts) {
  if (facts.is_authority)
    refuse_own(path, "'" + facts.name +
                       "' is the certificate of a CA, which issues others: "
                       "name the certificate of this node (tls.crt)");
  if (facts.roles.empty())
    refuse_own(path, "says no role: its alternative names need a URI such as " +
                       std::string{role_prefix} +
                       "worker; trainer_node pki issue --role worker adds it");
}

void show_own(tls_material& to, const certificate_chain& chain) {
  const auto& terms = to.terms;
  auto* context = to.context.get();
  if (SSL_CTX_use_certificate(context, chain.front().get()) != 1)
    refuse_own(terms.cert, "cannot be used: " + last_complaint() +
                             "; issue it with a key of ECDSA P-256, or RSA of "
                             "2048 bits or more");
  for (size_t i = 1; i < chain.size(); ++i)
    require_openssl(SSL_CTX_add1_chain_cert(context, chain[i].get()) == 1,
                    "use a chain of certificates");
  auto key = read_key(terms.key);
  if (X509_check_private_key(chain.front().get(), key.get()) != 1)
    refuse_own(terms.key, "is not the key of " + terms.cert.string() +
                            ": take both files from one folder of "
                            "trainer_node pki issue");
  require_openssl(SSL_CTX_use_PrivateKey(context, key.get()) == 1, "use a key");
}

void add_warnings(tls_material& to) {
  struct stat about {};
  const auto& key = to.terms.key;
  if (::stat(key.c_str(), &about) == 0 &&
      (about.st_mode & (S_IROTH | S_IWOTH)) != 0)
    to.warnings.push_back(key.string() +
                          ": other users may read this key: chmod 600 " +
                          key.string());
  auto left = to.own->not_after - to.now();
  if (left < soon * seconds_of_day)
    to.warnings.push_back(
      to.terms.cert.string() + ": expires on " + date_text(to.own->not_after) +
      ": renew it (trainer_node pki renew); no restart is needed");
}

} // namespace

std::time_t tls_material::now() const {
  return terms.clock ? terms.clock() : std::time(nullptr);
}

std::shared_ptr<const tls_material> read_material(const tls_terms& terms) {
  auto out = std::make_shared<tls_material>();
  out->terms = terms;
  out->context = make_context(terms);
  if (!terms.ca.empty())
    believe(out->context.get(), terms.ca);
  if (terms.cert.empty())
    return out;
  auto chain = read_certificates(terms.cert);
  out->own =
    std::make_shared<const certificate_facts>(facts_of(chain.front().get()));
  require_node(terms.cert, *out->own);
  show_own(*out, chain);
  auto now = out->now();
  require_believed(
    terms, verify_own(out->context.get(), chain, !terms.ca.empty(), now), now);
  add_warnings(*out);
  return out;
}

} // namespace troupe::transport
