#pragma once
// Both ends of a TCP connection within this machine.

#include <cstdint>

namespace troupe::bench {

/// Open files; whoever has them closes them.
struct connection {
  int worker = -1;
  int server = -1;
};

/// @param bytes_per_second At most so many go each way; 0: as many as go. The
/// kernel spaces the packets, as a slower line would.
connection connect_loopback(uint32_t bytes_per_second = 0);

} // namespace troupe::bench
