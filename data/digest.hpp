#pragma once
// A digest that tells data sets apart: fast, the same on every machine, and not
// cryptographic. One owner; not thread-safe.

#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace troupe::data {

class digest {
public:
  void add(uint64_t word) noexcept {
    hash_ = (hash_ ^ word) * 0x9e3779b97f4a7c15;
    hash_ ^= hash_ >> 32;
  }

  void add(std::span<const uint8_t> bytes) noexcept {
    add(static_cast<uint64_t>(bytes.size()));
    for (; bytes.size() >= 8; bytes = bytes.subspan(8)) {
      uint64_t word = 0;
      std::memcpy(&word, bytes.data(), 8);
      add(word);
    }
    uint64_t rest = 0;
    for (size_t i = 0; i < bytes.size(); ++i)
      rest |= uint64_t{bytes[i]} << (8 * i);
    add(rest);
  }

  void add(std::string_view text) noexcept {
    add(std::span{reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  }

  /// Never 0, which stands for a digest that is not known.
  uint64_t value() const noexcept { return hash_ == 0 ? 1 : hash_; }

private:
  uint64_t hash_ = 0xcbf29ce484222325;
};

} // namespace troupe::data
