#pragma once
// Reads certificates and keys from files in PEM form. Every error is a
// `run_error` whose line names the file and the remedy. Pure functions; any
// thread.

#include "messages/transport/tls/openssl.hpp"

#include <filesystem>

namespace troupe::transport {

/// The certificates in a file, at least one. A text around them is skipped.
certificate_chain read_certificates(const std::filesystem::path& path);

/// The private key in a file. A passphrase is never asked for.
key_ptr read_key(const std::filesystem::path& path);

} // namespace troupe::transport
