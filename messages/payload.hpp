#pragma once
// The handle of a tensor that is sent between actors: a flat, immutable run of
// numbers.
//
// A message holds the handle, never the bytes. Inside one process the handle is
// passed on and nothing is copied. A payload never enters CAF's serialisation
// (it is declared unsafe for that): between processes a link sends its bytes on
// a tensor path instead.
//
// The numbers lie in the host's memory, or on a device (`device`), whose memory
// the host cannot read. So whoever needs bytes of the host asks for them by
// name, `host_bytes`, and gets a copy of what lies on a device; nothing else
// leads to the numbers.
//
// Thread-safe: the numbers are immutable, so any number of threads may read
// them. The thread that drops the last handle frees the memory. While bytes are
// still arriving (`arriving`), a reader waits for those that it needs.

#include "messages/arrival.hpp"
#include "messages/device_memory.hpp"

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

  /// All of this memory of a device, from its first byte on.
  payload(payload_shape shape, std::shared_ptr<const device_memory> there);

  const payload_shape& shape() const { return shape_; }

  /// The numbers in the host's memory, which lives as long as the owner. If
  /// they lie on a device, the first call copies them and waits for that;
  /// @throws run_error if the device has failed.
  std::span<const std::byte> host_bytes() const {
    if (on_device_)
      return copy_of_device();
    return {data_, static_cast<size_t>(shape_.bytes())};
  }

  /// The memory of the device that has the numbers; null if they lie in the
  /// host's.
  const device_memory* device() const {
    return on_device_ ? static_cast<const device_memory*>(owner_.get())
                      : nullptr;
  }

  /// The first byte on the device, which the host must not touch; null for
  /// numbers in the host's memory.
  const std::byte* device_address() const {
    return on_device_ ? data_ : nullptr;
  }

  /// Whether both are the same numbers: those of the same memory, from the same
  /// byte on.
  bool is_same(const payload& other) const { return data_ == other.data_; }

  /// The object that keeps the memory alive; a view that outlives this handle
  /// must hold it.
  const std::shared_ptr<const void>& owner() const { return owner_; }

  /// The progress of the transfer; null when all bytes are there.
  const arrival_ptr& arriving() const { return arriving_; }

  /// A payload of these elements, which shares the memory; all bytes must be
  /// there.
  /// @pre first + count <= shape().count
  payload part(uint64_t first, uint64_t count) const {
    auto out = *this;
    out.shape_.count = count;
    out.data_ += first * size_of(shape_.type);
    out.arriving_ = nullptr;
    out.finite_ = std::nullopt;
    return out;
  }

  /// Whether all numbers are finite. Known only if this process checked them
  /// while it wrote the memory, which nobody else can write; otherwise nothing.
  std::optional<bool> finite() const { return finite_; }

  void know_finite(bool x) { finite_ = x; }

  explicit operator bool() const { return data_ != nullptr; }

  /// Whether there are numbers, and they are somewhere else.
  bool is_absent() const { return !data_ && shape_.count > 0; }

private:
  std::span<const std::byte> copy_of_device() const;

  payload_shape shape_;
  std::shared_ptr<const void> owner_; ///< On a device: its device_memory.
  const std::byte* data_ = nullptr;
  arrival_ptr arriving_;
  std::optional<bool> finite_;
  bool on_device_ = false;
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
