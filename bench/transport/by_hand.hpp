#pragma once
// What one would write with threads, sockets and shared memory alone: the
// references of the tensor paths. No actors, no headers, no checks.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

namespace troupe::bench {

/// Makes so many round trips with each worker, all workers at a time, and
/// returns when all are done.
class exchange {
public:
  virtual ~exchange() = default;

  virtual void run(uint64_t round_trips) = 0;
};

/// Each worker on a connection over loopback, with a thread at either end:
/// `bytes` there, as many back.
std::unique_ptr<exchange> raw_tcp(size_t bytes, size_t workers);

/// A slot in shared memory for each worker, and weights for all; one thread of
/// the server adds a slot to the weights, in place, and wakes its worker.
std::unique_ptr<exchange> shared_ring(size_t bytes, size_t workers);

} // namespace troupe::bench
