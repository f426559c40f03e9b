#pragma once
// SHA-256 of data that comes in pieces. One owner; not thread-safe.

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace troupe::models {

using sha256_digest = std::array<std::byte, 32>;

class sha256 {
public:
  sha256();
  ~sha256();
  sha256(sha256&&) noexcept;
  sha256& operator=(sha256&&) noexcept;

  void update(std::span<const std::byte> bytes);

  /// The digest of all bytes. The object must not be used afterwards.
  sha256_digest finish();

private:
  struct state;
  std::unique_ptr<state> state_;
};

/// The digest of `bytes`.
sha256_digest sha256_of(std::span<const std::byte> bytes);

/// 64 lower-case hexadecimal digits.
std::string to_hex(const sha256_digest& digest);

} // namespace troupe::models
