#pragma once
// OpenSSL's objects with an owner, and what its calls complain of. Plain
// values; the queue of complaints is the calling thread's.

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>
#include <vector>

namespace troupe::transport {

template <auto Free>
struct openssl_free {
  template <class T>
  void operator()(T* held) const {
    Free(held);
  }
};

using x509_ptr = std::unique_ptr<X509, openssl_free<X509_free>>;
using key_ptr = std::unique_ptr<EVP_PKEY, openssl_free<EVP_PKEY_free>>;
using bio_ptr = std::unique_ptr<BIO, openssl_free<BIO_free_all>>;
using context_ptr = std::unique_ptr<SSL_CTX, openssl_free<SSL_CTX_free>>;
using ssl_ptr = std::unique_ptr<SSL, openssl_free<SSL_free>>;
using names_ptr =
  std::unique_ptr<GENERAL_NAMES, openssl_free<GENERAL_NAMES_free>>;

/// The first one is a node's, the others lead from its issuer to a CA.
using certificate_chain = std::vector<x509_ptr>;

/// What OpenSSL complained of last on this thread, in its words; removes all
/// complaints.
std::string last_complaint();

/// Throws `run_error`, with the last complaint, unless `done`.
void require_openssl(bool done, const char* action);

} // namespace troupe::transport
