#pragma once
// Whether the kernel can encrypt what a socket of TCP sends (kTLS, "Kernel TLS"
// in the documents of Linux).

#include <string>

namespace troupe::transport {

/// Empty if it can; else why it cannot, and what to do.
std::string why_no_kernel_tls();

} // namespace troupe::transport
