#pragma once
// Makes both ends of a TCP connection within this machine.

#include <cstdint>

namespace troupe::bench {

/// The descriptors of both ends; the caller closes them.
struct connection {
  int worker = -1;
  int server = -1;
};

/// @param bytes_per_second Limit for each direction; 0: none. The kernel spaces
/// the packets, as a slower line would.
connection connect_loopback(uint32_t bytes_per_second = 0);

} // namespace troupe::bench
