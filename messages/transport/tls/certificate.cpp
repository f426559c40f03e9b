#include "messages/transport/tls/certificate.hpp"

#include "config/text/text.hpp"

#include <arpa/inet.h>
#include <openssl/asn1.h>

#include <algorithm>

namespace troupe::transport {

namespace {

constexpr size_t most_hosts_shown = 4;
constexpr size_t longest_host = 253; // A name of DNS.

std::string bytes_of(const ASN1_STRING* text) {
  return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
          static_cast<size_t>(ASN1_STRING_length(text))};
}

std::string name_text(const X509_NAME* name) {
  if (auto at = X509_NAME_get_index_by_NID(name, NID_commonName, -1); at >= 0)
    return config::shown(
      bytes_of(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(name, at))));
  bio_ptr out{BIO_new(BIO_s_mem())};
  X509_NAME_print_ex(out.get(), name, 0, XN_FLAG_ONELINE);
  char* text = nullptr;
  auto size = BIO_get_mem_data(out.get(), &text);
  return config::shown({text, static_cast<size_t>(std::max(size, 0L))});
}

/// As it stands, since a certificate may be issued again for it; a stranger's
/// may have anything in it.
std::string host_text(const ASN1_STRING* text) {
  auto host = bytes_of(text);
  return host.size() > longest_host || config::has_control_character(host)
           ? config::shown(host)
           : host;
}

std::string address_text(const ASN1_STRING* bytes) {
  auto family = ASN1_STRING_length(bytes) == 4 ? AF_INET : AF_INET6;
  char text[INET6_ADDRSTRLEN] = "";
  if (ASN1_STRING_length(bytes) == 4 || ASN1_STRING_length(bytes) == 16)
    inet_ntop(family, ASN1_STRING_get0_data(bytes), text, sizeof text);
  return text;
}

void add_name(certificate_facts& to, const GENERAL_NAME* name) {
  int kind = 0;
  const auto* value =
    static_cast<const ASN1_STRING*>(GENERAL_NAME_get0_value(name, &kind));
  if (kind == GEN_DNS)
    to.hosts.push_back(host_text(value));
  if (kind == GEN_IPADD)
    to.hosts.push_back(address_text(value));
  if (kind != GEN_URI)
    return;
  auto uri = bytes_of(value);
  if (!uri.starts_with(role_prefix))
    return;
  auto role = uri.substr(role_prefix.size());
  if (config::is_among(member_roles, role) && !to.has_role(role))
    to.roles.push_back(role);
}

std::time_t seconds_of(const ASN1_TIME* when) {
  std::tm parts{};
  return ASN1_TIME_to_tm(when, &parts) == 1 ? timegm(&parts) : 0;
}

std::string in_hex(const unsigned char* bytes, size_t size) {
  std::string out;
  for (size_t i = 0; i < size; ++i)
    for (auto digit : {bytes[i] >> 4, bytes[i] & 15})
      out += "0123456789abcdef"[digit];
  return out;
}

} // namespace

bool certificate_facts::has_role(std::string_view role) const {
  return config::is_among(roles, role);
}

certificate_facts facts_of(const X509* certificate) {
  certificate_facts out;
  out.name = name_text(X509_get_subject_name(certificate));
  out.issuer = name_text(X509_get_issuer_name(certificate));
  names_ptr names{static_cast<GENERAL_NAMES*>(
    X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr))};
  for (auto i = 0; i < sk_GENERAL_NAME_num(names.get()); ++i)
    add_name(out, sk_GENERAL_NAME_value(names.get(), i));
  out.not_before = seconds_of(X509_get0_notBefore(certificate));
  out.not_after = seconds_of(X509_get0_notAfter(certificate));
  // 1: by its basic constraints. Older signs of a CA also fit plain
  // certificates of version 1.
  out.is_authority = X509_check_ca(const_cast<X509*>(certificate)) == 1;
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  X509_digest(certificate, EVP_sha256(), digest, &size);
  out.fingerprint = in_hex(digest, size);
  return out;
}

std::string title_of(const certificate_facts& facts) {
  return "'" + facts.name + "' of '" + facts.issuer + "'";
}

std::string roles_text(const certificate_facts& facts) {
  std::string out;
  for (const auto& role : facts.roles)
    out += (out.empty()                    ? ""
            : &role == &facts.roles.back() ? " and "
                                           : ", ") +
           role;
  return out.empty() ? "none" : out;
}

std::string hosts_text(const certificate_facts& facts) {
  if (facts.hosts.empty())
    return "no host";
  auto shown = std::min(facts.hosts.size(), most_hosts_shown);
  auto out = config::join(std::span{facts.hosts}.first(shown), ", ");
  if (auto more = facts.hosts.size() - shown; more > 0)
    out += " and " + std::to_string(more) + " more";
  return out;
}

std::string date_text(std::time_t when) {
  std::tm parts{};
  gmtime_r(&when, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &parts);
  return text;
}

bool is_for_host(X509* certificate, const std::string& host) {
  // A zone says by which interface this machine reaches the address.
  auto address = host.substr(0, host.find('%'));
  unsigned char bytes[sizeof(in6_addr)];
  if (inet_pton(AF_INET, address.c_str(), bytes) == 1 ||
      inet_pton(AF_INET6, address.c_str(), bytes) == 1)
    return X509_check_ip_asc(certificate, address.c_str(), 0) == 1;
  return X509_check_host(certificate, host.data(), host.size(),
                         X509_CHECK_FLAG_NEVER_CHECK_SUBJECT |
                           X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS,
                         nullptr) == 1;
}

std::string parse_fingerprint(std::string_view text) {
  constexpr size_t digits = 64;
  std::string hex;
  for (auto x : config::in_small_letters(config::trim(text)))
    if (x != ':')
      hex += x;
  if (hex.size() != digits ||
      hex.find_first_not_of("0123456789abcdef") != hex.npos)
    return {};
  return hex;
}

} // namespace troupe::transport
