#pragma once
// Numbers in the memory of a device (a GPU), as the payload that holds them
// sees it. Whoever works on devices implements it (models/device); messages and
// actors need nothing of a device's library.
//
// Thread-safe; immutable, apart from the copy that the first reader makes.

#include <cstddef>
#include <span>

namespace troupe {

class device_memory {
public:
  virtual ~device_memory() = default;

  /// The device: N of `cuda:N`.
  virtual int device() const = 0;

  /// Where the numbers begin on the device. The host must not touch them.
  virtual const std::byte* address() const = 0;

  /// The event, as the device's own library knows it, after which the numbers
  /// may be read; null: they may be read now. It lives as long as this object.
  virtual void* written() const = 0;

  /// A copy in the host's memory. The first call makes it, and waits until it
  /// is there; the copy lives as long as this object.
  /// @throws run_error if the device has failed.
  virtual std::span<const std::byte> host_bytes() const = 0;
};

} // namespace troupe
