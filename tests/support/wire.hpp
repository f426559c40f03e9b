#pragma once
// Serialises values as an actor connection does.

#include <caf/binary_deserializer.hpp>
#include <caf/binary_serializer.hpp>
#include <caf/byte_buffer.hpp>

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>

namespace troupe::test {

/// The bytes of `x`. Throws when it cannot be written.
template <class T>
caf::byte_buffer to_wire(const T& x) {
  caf::byte_buffer out;
  caf::binary_serializer sink{nullptr, out};
  if (!sink.apply(x))
    throw std::runtime_error("cannot be written: " +
                             caf::to_string(sink.get_error()));
  return out;
}

/// The value of these bytes, all of which must be used; else nothing.
template <class T>
std::optional<T> from_wire(const caf::byte_buffer& bytes) {
  T out{};
  caf::binary_deserializer source{nullptr, bytes};
  if (!source.apply(out) || source.remaining() != 0)
    return std::nullopt;
  return out;
}

template <class T>
T round_trip(const T& x) {
  return from_wire<T>(to_wire(x)).value();
}

/// Two hex digits for each byte.
inline std::string hex(const caf::byte_buffer& bytes) {
  constexpr auto digits = "0123456789abcdef";
  std::string out;
  for (auto x : bytes) {
    auto number = static_cast<unsigned>(x);
    out += digits[number / 16];
    out += digits[number % 16];
  }
  return out;
}

} // namespace troupe::test
