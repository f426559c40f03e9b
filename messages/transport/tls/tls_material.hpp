#pragma once
// What an identity has read from its files at one time. Never changed once it
// is made, so that any thread may use it; sessions share it.

#include "messages/transport/tls/certificate.hpp"
#include "messages/transport/tls/tls_terms.hpp"

#include <memory>
#include <string>
#include <vector>

namespace troupe::transport {

struct tls_material {
  tls_terms terms;
  /// What this node shows; null if it has no certificate.
  std::shared_ptr<const certificate_facts> own;
  std::vector<std::string> warnings;
  context_ptr context;

  std::time_t now() const;
};

/// Throws `run_error` for what is wrong with the files.
std::shared_ptr<const tls_material> read_material(const tls_terms& terms);

} // namespace troupe::transport
