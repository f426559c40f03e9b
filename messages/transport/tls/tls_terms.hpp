#pragma once
// What a node is told about TLS. Plain values.

#include <ctime>
#include <filesystem>
#include <functional>
#include <string>

namespace troupe::transport {

enum class tls_version : uint8_t { v1_2, v1_3 };

/// Which files a node has decides what it can do:
/// - `cert` and `key`: it can listen;
/// - `ca` or `pin`: it can dial;
/// - all three files: both, and each end knows the other.
struct tls_terms {
  std::filesystem::path cert; ///< Its own, then those of intermediate CAs.
  std::filesystem::path key;
  std::filesystem::path ca; ///< The CAs to believe.
  /// SHA-256 of the one certificate to believe, in hex, as `pki show` prints
  /// it.
  std::string pin;
  tls_version lowest = tls_version::v1_3;
  /// Whoever dials must show a certificate of `ca`. Else he may, which is for
  /// light mode: a token says who he is.
  bool asks_for_certificate = true;
  /// Let the kernel cipher, where it can.
  bool in_kernel = false;
  /// s since 1970; the system's clock if it is empty.
  std::function<std::time_t()> clock{};
};

/// tls.crt, tls.key and ca.crt of a folder.
tls_terms terms_of_folder(const std::filesystem::path& folder);

} // namespace troupe::transport
