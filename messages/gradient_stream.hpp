#pragma once
// Sends a gradient while backward still computes it. Backward fills the
// gradient from its end to its beginning, so the part of the last layers can go
// first. Implemented by the tensor paths; a worker gets it with its link and
// hands it to its compute actor.

#include "messages/payload.hpp"

#include <cstdint>
#include <memory>

namespace troupe {

/// Called by the computing thread only, in the order of the functions below.
class gradient_stream {
public:
  virtual ~gradient_stream() = default;

  /// The computation of this gradient begins; its bytes are not there yet. If
  /// the previous gradient has not been pushed by now, it never will be.
  virtual void begin(const payload& gradient) = 0;

  /// The bytes from `from` to the end are final.
  virtual void ready(uint64_t from) = 0;

  /// The gradient is complete; computing it took so many seconds.
  virtual void computed(double seconds) = 0;
};

using gradient_stream_ptr = std::shared_ptr<gradient_stream>;

/// How the gradients of a worker leave it.
struct gradient_way {
  gradient_stream_ptr early; ///< Sends them while they are computed; or null.
  /// Those of a GPU are taken from its memory; else from the host's.
  bool from_device = false;
};

} // namespace troupe
