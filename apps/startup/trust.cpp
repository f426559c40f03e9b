#include "apps/startup/trust.hpp"

#include "config/text/failure.hpp"
#include "messages/transport/tls/kernel_tls.hpp"
#include "messages/transport/tls/tls_identity.hpp"

#include <openssl/sha.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

namespace troupe::app {

namespace {

/// Of a token; one that is shorter can be guessed.
constexpr size_t least_bytes = 16;

std::string read_token(const std::string& file) {
  errno = 0;
  std::ifstream in{file, std::ios::binary};
  std::string out{std::istreambuf_iterator<char>{in}, {}};
  if (!in)
    throw run_error("--token-file " + file +
                    ": cannot be read: " + std::strerror(errno) +
                    "; openssl rand -hex 32 makes a token, the same for all "
                    "nodes");
  constexpr const char* blanks = " \t\r\n";
  out.erase(0, out.find_first_not_of(blanks));
  out.erase(out.find_last_not_of(blanks) + 1);
  if (out.size() < least_bytes)
    throw run_error("--token-file " + file + ": has " +
                    std::to_string(out.size()) + " characters, and " +
                    std::to_string(least_bytes) +
                    " at least are needed, as openssl rand -hex 32 makes them");
  return out;
}

std::string proof_of(const std::string& token) {
  std::string out(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(token.data()), token.size(),
         reinterpret_cast<unsigned char*>(out.data()));
  return out;
}

transport::tls_terms terms_of(const config::cluster_settings& cluster) {
  auto out = cluster.tls_dir.empty()
               ? transport::tls_terms{}
               : transport::terms_of_folder(cluster.tls_dir);
  if (cluster.tls_dir.empty()) {
    out.cert = cluster.tls_cert;
    out.key = cluster.tls_key;
    out.ca = cluster.tls_ca;
  }
  out.pin = cluster.tls_pin;
  if (cluster.tls_min == "1.2")
    out.lowest = transport::tls_version::v1_2;
  out.in_kernel = cluster.ktls;
  // With a token, whoever has no certificate may come, too.
  out.asks_for_certificate = cluster.token_file.empty();
  return out;
}

void report_kernel_tls(const config::cluster_settings& cluster,
                       const speech& say) {
  if (!cluster.encrypts())
    say("ktls  off: connections are not encrypted; --tls-dir encrypts them");
  else if (auto why = transport::why_no_kernel_tls(); !why.empty())
    say("ktls  off: " + why + "; OpenSSL encrypts in this process");
}

} // namespace

transport::credentials credentials_of(const config::cluster_settings& cluster,
                                      const speech& say) {
  transport::credentials out;
  out.trusts_network = cluster.insecure_network;
  if (!cluster.token_file.empty())
    out.proof = proof_of(read_token(cluster.token_file));
  if (cluster.ktls)
    report_kernel_tls(cluster, say);
  if (!cluster.encrypts())
    return out;
  out.identity = std::make_shared<transport::tls_identity>(terms_of(cluster));
  for (const auto& line : out.identity->warnings())
    say("certificate  " + line);
  return out;
}

} // namespace troupe::app
