#include "messages/transport/tls/openssl.hpp"

#include "config/text/failure.hpp"

#include <openssl/err.h>

namespace troupe::transport {

std::string last_complaint() {
  auto code = ERR_peek_last_error();
  ERR_clear_error();
  const auto* words = ERR_reason_error_string(code);
  return words != nullptr ? words : "no reason is known";
}

void require_openssl(bool done, const char* action) {
  if (!done)
    throw run_error(std::string{"cannot "} + action + ": " + last_complaint());
}

} // namespace troupe::transport
