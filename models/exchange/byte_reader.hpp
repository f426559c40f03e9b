#pragma once
// Reads little-endian numbers and pieces of bytes from memory that a file
// filled, from front to back. Nothing outside is ever read.
//
// A value; not thread-safe. Throws a `run_error` that begins with `where` if
// bytes are missing.

#include "config/text/failure.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace troupe::models {

static_assert(std::endian::native == std::endian::little);

class byte_reader {
public:
  byte_reader(std::span<const std::byte> bytes, const std::string& where)
    : rest_(bytes), where_(where) {
    // nop
  }

  std::span<const std::byte> bytes(uint64_t count) {
    if (count > rest_.size())
      throw run_error(where_ + ": is cut off");
    auto out = rest_.first(count);
    rest_ = rest_.subspan(count);
    return out;
  }

  template <class T>
  T number() {
    T out;
    std::memcpy(&out, bytes(sizeof out).data(), sizeof out);
    return out;
  }

  std::string_view text(uint64_t count) {
    auto out = bytes(count);
    return {reinterpret_cast<const char*>(out.data()), out.size()};
  }

  /// Up to a line feed, which is left out.
  std::string_view line() {
    std::string_view all{reinterpret_cast<const char*>(rest_.data()),
                         rest_.size()};
    auto out = text(std::min(all.find('\n'), all.size()));
    bytes(1);
    return out;
  }

  bool at_end() const noexcept { return rest_.empty(); }

  size_t left() const noexcept { return rest_.size(); }

private:
  std::span<const std::byte> rest_;
  const std::string& where_;
};

} // namespace troupe::models
