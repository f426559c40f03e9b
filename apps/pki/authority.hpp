#pragma once
// Makes keys and certificates: what `trainer_node pki` writes, what tests need,
// and what a launch of several hosts gives to its nodes. Throws `run_error`
// when OpenSSL cannot. Pure but for random numbers; any thread.

#include "messages/transport/tls/openssl.hpp"

#include <cstdint>
#include <ctime>
#include <string>
#include <vector>

namespace troupe::app {

/// What a certificate is to say.
struct certificate_draft {
  std::string name;               ///< At most 64 bytes.
  std::vector<std::string> hosts; ///< Names and addresses, without brackets.
  std::vector<std::string> roles; ///< transport::member_roles
  std::time_t not_before = 0;     ///< s since 1970
  std::time_t not_after = 0;
  bool is_authority = false; ///< It issues others.
};

/// An authority, or a node with the certificate that it shows.
struct key_holder {
  transport::x509_ptr certificate;
  transport::key_ptr key;
};

/// s before now from which on a certificate is valid, for clocks that are slow.
inline constexpr std::time_t allowance = 3'600;

/// Valid from now on, for so many days, but no longer than its authority is.
/// @param authority Null: it has none.
void set_dates(certificate_draft& draft, uint64_t days,
               const key_holder* authority);

/// ECDSA with the curve P-256.
transport::key_ptr make_key();

/// A certificate for whoever has `key`, issued by `issuer`, or by itself if
/// that is null. Its serial number is random.
transport::x509_ptr make_certificate(const certificate_draft& draft,
                                     EVP_PKEY* key, const key_holder* issuer);

/// Both: a new key and its certificate.
key_holder make_holder(const certificate_draft& draft,
                       const key_holder* issuer);

/// As a file has them.
std::string to_pem(const X509* certificate);
std::string to_pem(const EVP_PKEY* key);

} // namespace troupe::app
