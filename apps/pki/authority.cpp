#include "apps/pki/authority.hpp"

#include "messages/transport/tls/certificate.hpp"

#include <arpa/inet.h>
#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/pem.h>

#include <algorithm>

namespace troupe::app {

namespace {

using namespace transport;

/// Bits of a serial number: at most 20 bytes, and positive.
constexpr int serial_bits = 159;

void set_serial(X509* to) {
  std::unique_ptr<BIGNUM, openssl_free<BN_free>> number{BN_new()};
  require_openssl(
    number != nullptr &&
      BN_rand(number.get(), serial_bits, BN_RAND_TOP_ANY, BN_RAND_BOTTOM_ANY) ==
        1 &&
      BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(to)) != nullptr,
    "make a serial number");
}

void set_name(X509* to, const std::string& name) {
  require_openssl(X509_NAME_add_entry_by_NID(
                    X509_get_subject_name(to), NID_commonName, MBSTRING_UTF8,
                    reinterpret_cast<const unsigned char*>(name.data()),
                    static_cast<int>(name.size()), -1, 0) == 1,
                  "name a certificate");
}

/// @param value In OpenSSL's own language, so never what a user typed.
void add_extension(X509* to, const X509* issuer, int kind, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, const_cast<X509*>(issuer), to, nullptr, nullptr, 0);
  std::unique_ptr<X509_EXTENSION, openssl_free<X509_EXTENSION_free>> made{
    X509V3_EXT_conf_nid(nullptr, &context, kind, value)};
  require_openssl(made != nullptr && X509_add_ext(to, made.get(), -1) == 1,
                  "extend a certificate");
}

void add_name(GENERAL_NAMES* to, int kind, const std::string& bytes) {
  auto* text = ASN1_STRING_type_new(kind == GEN_IPADD ? V_ASN1_OCTET_STRING
                                                      : V_ASN1_IA5STRING);
  auto* name = GENERAL_NAME_new();
  require_openssl(
    text != nullptr && name != nullptr &&
      ASN1_STRING_set(text, bytes.data(), static_cast<int>(bytes.size())) == 1,
    "name a host");
  GENERAL_NAME_set0_value(name, kind, text);
  require_openssl(sk_GENERAL_NAME_push(to, name) > 0, "name a host");
}

void add_host(GENERAL_NAMES* to, const std::string& host) {
  std::string bytes(sizeof(in6_addr), '\0');
  if (inet_pton(AF_INET, host.c_str(), bytes.data()) == 1)
    return add_name(to, GEN_IPADD, bytes.substr(0, sizeof(in_addr)));
  if (inet_pton(AF_INET6, host.c_str(), bytes.data()) == 1)
    return add_name(to, GEN_IPADD, bytes);
  add_name(to, GEN_DNS, host);
}

void add_names(X509* to, const certificate_draft& draft) {
  names_ptr all{sk_GENERAL_NAME_new_null()};
  for (const auto& host : draft.hosts)
    add_host(all.get(), host);
  for (const auto& role : draft.roles)
    add_name(all.get(), GEN_URI, std::string{role_prefix} + role);
  if (sk_GENERAL_NAME_num(all.get()) > 0)
    require_openssl(X509_add1_ext_i2d(to, NID_subject_alt_name, all.get(), 0,
                                      X509V3_ADD_DEFAULT) == 1,
                    "add names to a certificate");
}

void add_uses(X509* to, const X509* issuer, const certificate_draft& draft) {
  add_extension(to, issuer, NID_subject_key_identifier, "hash");
  if (draft.is_authority) {
    add_extension(to, issuer, NID_basic_constraints, "critical,CA:TRUE");
    add_extension(to, issuer, NID_key_usage, "critical,keyCertSign,cRLSign");
    return;
  }
  add_extension(to, issuer, NID_basic_constraints, "critical,CA:FALSE");
  add_extension(to, issuer, NID_key_usage, "critical,digitalSignature");
  // Servers dial each other, too.
  auto serves = std::ranges::find(draft.roles, "ps") != draft.roles.end();
  add_extension(to, issuer, NID_ext_key_usage,
                serves ? "serverAuth,clientAuth" : "clientAuth");
}

std::string text_in(BIO* bio) {
  char* text = nullptr;
  auto size = BIO_get_mem_data(bio, &text);
  return {text, static_cast<size_t>(size)};
}

} // namespace

void set_dates(certificate_draft& draft, uint64_t days,
               const key_holder* authority) {
  auto now = std::time(nullptr);
  draft.not_before = now - allowance;
  draft.not_after = now + static_cast<std::time_t>(days) * seconds_of_day;
  if (authority != nullptr)
    draft.not_after = std::min(
      draft.not_after, facts_of(authority->certificate.get()).not_after);
}

key_ptr make_key() {
  key_ptr out{EVP_EC_gen("P-256")};
  require_openssl(out != nullptr, "make a key");
  return out;
}

x509_ptr make_certificate(const certificate_draft& draft, EVP_PKEY* key,
                          const key_holder* issuer) {
  x509_ptr out{X509_new()};
  require_openssl(out != nullptr, "make a certificate");
  auto* made = out.get();
  const auto* above = issuer != nullptr ? issuer->certificate.get() : made;
  X509_set_version(made, X509_VERSION_3);
  set_serial(made);
  set_name(made, draft.name);
  require_openssl(
    X509_set_issuer_name(made, X509_get_subject_name(above)) == 1 &&
      ASN1_TIME_set(X509_getm_notBefore(made), draft.not_before) != nullptr &&
      ASN1_TIME_set(X509_getm_notAfter(made), draft.not_after) != nullptr &&
      X509_set_pubkey(made, key) == 1,
    "fill in a certificate");
  add_uses(made, above, draft);
  add_extension(made, above, NID_authority_key_identifier, "keyid");
  add_names(made, draft);
  require_openssl(X509_sign(made, issuer != nullptr ? issuer->key.get() : key,
                            EVP_sha256()) > 0,
                  "sign a certificate");
  return out;
}

key_holder make_holder(const certificate_draft& draft,
                       const key_holder* issuer) {
  auto key = make_key();
  auto certificate = make_certificate(draft, key.get(), issuer);
  return {std::move(certificate), std::move(key)};
}

std::string to_pem(const X509* certificate) {
  bio_ptr out{BIO_new(BIO_s_mem())};
  require_openssl(out != nullptr &&
                    PEM_write_bio_X509(out.get(), certificate) == 1,
                  "write a certificate");
  return text_in(out.get());
}

std::string to_pem(const EVP_PKEY* key) {
  bio_ptr out{BIO_new(BIO_s_secmem())};
  require_openssl(out != nullptr && PEM_write_bio_PKCS8PrivateKey(
                                      out.get(), key, nullptr, nullptr, 0,
                                      nullptr, nullptr) == 1,
                  "write a key");
  return text_in(out.get());
}

} // namespace troupe::app
