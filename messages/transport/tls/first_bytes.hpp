#pragma once
// Does the other end speak TLS? Its first bytes say it, so that neither side
// waits for an answer that does not come. Pure functions; any thread.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace troupe::transport {

enum class first_bytes : uint8_t {
  too_few, ///< More are needed to say it.
  tls,
  other
};

/// Bytes of which `look_at` needs no more.
inline constexpr size_t telling_bytes = 2;

first_bytes look_at(std::span<const std::byte> begin);

/// What a node without TLS answers to one that begins with it: an alert, from
/// which that end knows that it has to print `not_tls_line`.
extern const std::string_view answer_to_tls;

/// For a node with TLS whose other end has none, and the reverse.
extern const std::string not_tls_line;
extern const std::string unexpected_tls_line;

} // namespace troupe::transport
