#include "messages/transport/tls/first_bytes.hpp"

namespace troupe::transport {

namespace {

// Types of records. The second byte of one is the major version of TLS.
constexpr std::byte alert_record{21};
constexpr std::byte handshake_record{22};
constexpr std::byte major_version{3};

// A fatal alert, number 120. A node of ours sends it for nothing else.
constexpr char no_tls_here[] = {21, 3, 3, 0, 2, 2, 120};

} // namespace

const std::string_view answer_to_tls{no_tls_here, sizeof no_tls_here};

const std::string not_tls_line =
  "the other end does not speak TLS, and this node was told to: give both ends "
  "--tls-dir (or --tls-ca or --tls-pin), or neither";

const std::string unexpected_tls_line =
  "the other end speaks TLS, and this node was not told to: give both ends "
  "--tls-dir (or --tls-ca or --tls-pin), or neither";

first_bytes look_at(std::span<const std::byte> begin) {
  if (begin.empty())
    return first_bytes::too_few;
  if (begin[0] != handshake_record && begin[0] != alert_record)
    return first_bytes::other;
  if (begin.size() < telling_bytes)
    return first_bytes::too_few;
  return begin[1] == major_version ? first_bytes::tls : first_bytes::other;
}

} // namespace troupe::transport
