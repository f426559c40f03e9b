#pragma once
// The handle of a tensor that is sent between actors: a flat, immutable run of
// numbers.
//
// A message holds the handle, never the bytes. Inside one process the handle is
// passed on and nothing is copied. A payload never enters CAF's serialisation
// (it is declared unsafe for that): between processes a link sends its bytes on
// a tensor path instead.
//
// Thread-safe: the numbers are immutable, so any number of threads may read
// them. The thread that drops the last handle frees the memory. While bytes are
// still arriving (`arriving`), a reader waits for those that it needs.

#include "messages/arrival.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace troupe {

/// What the numbers of a payload are.
enum class element_type : uint8_t {
  float32 = 1,
  float64 = 2,
  byte = 3 ///< A compressed gradient (transport/compression).
};

/// Bytes of one element.
constexpr size_t size_of(element_type type) {
  switch (type) {
  case element_type::float32:
    return 4;
  case element_type::float64:
    return 8;
  default:
    return 1;
  }
}

/// What a receiver must know before the first byte, to allocate memory.
struct payload_shape {
  element_type type = element_type::float32;
  uint64_t count = 0; ///< Elements.

  uint64_t bytes() const { return count * size_of(type); }

  bool operator==(const payload_shape&) const = default;
};

class payload {
public:
  /// No tensor at all: the payload of a message that carries none.
  payload() = default;

  /// A view of memory that `owner` keeps alive.
  payload(payload_shape shape, std::shared_ptr<const void> owner,
          const std::byte* data, arrival_ptr arriving = nullptr);

  const payload_shape& shape() const { return shape_; }

  std::span<const std::byte> bytes() const {
    return {data_, static_cast<size_t>(shape_.bytes())};
  }

  /// The object that keeps the memory alive; a view that outlives this handle
  /// must hold it.
  const std::shared_ptr<const void>& owner() const { return owner_; }

  /// The progress of the transfer; null when all bytes are there.
  const arrival_ptr& arriving() const { return arriving_; }

  /// A payload of these elements, which shares the memory; all bytes must be
  /// there.
  /// @pre first + count <= shape().count
  payload part(uint64_t first, uint64_t count) const {
    return {{shape_.type, count}, owner_, data_ + first * size_of(shape_.type)};
  }

  /// Whether all numbers are finite. Known only if this process checked them
  /// while it wrote the memory, which nobody else can write; otherwise nothing.
  std::optional<bool> finite() const { return finite_; }

  void know_finite(bool x) { finite_ = x; }

  explicit operator bool() const { return data_ != nullptr; }

private:
  payload_shape shape_;
  std::shared_ptr<const void> owner_;
  const std::byte* data_ = nullptr;
  arrival_ptr arriving_;
  std::optional<bool> finite_;
};

/// Size and kind, never the numbers.
std::string to_string(const payload& x);

/// Memory for a payload, filled by its one owner before anybody else sees it.
/// Not thread-safe.
class payload_buffer {
public:
  /// Takes uninitialised memory, aligned to 64 bytes. Throws std::bad_alloc.
  explicit payload_buffer(payload_shape shape);

  const payload_shape& shape() const { return shape_; }

  std::span<std::byte> bytes() {
    return {data_.get(), static_cast<size_t>(shape_.bytes())};
  }

  /// Ends the writing: the memory becomes an immutable payload.
  payload seal() &&;

private:
  payload_shape shape_;
  std::shared_ptr<std::byte> data_;
};

} // namespace troupe
