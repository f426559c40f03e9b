#pragma once
// Where a gradient may go while backward still makes it, from its end to its
// beginning: the last layers' part is there first.

#include "messages/payload.hpp"

#include <cstdint>
#include <memory>

namespace troupe {

/// Called by one computing thread, in the order of these functions.
class gradient_stream {
public:
  virtual ~gradient_stream() = default;

  /// This gradient is computed now; its bytes are not there yet. If the one
  /// before was not pushed, it never will be.
  virtual void begin(const payload& gradient) = 0;

  /// The bytes from `from` to the end are there and stay as they are.
  virtual void ready(uint64_t from) = 0;

  /// It is whole, and that took so many seconds.
  virtual void computed(double seconds) = 0;
};

using gradient_stream_ptr = std::shared_ptr<gradient_stream>;

} // namespace troupe
