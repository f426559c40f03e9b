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

/// What a server does with the weights that its workers read.
enum class addition {
  in_place,    ///< Adds under the eyes of those who read them.
  to_a_version ///< Leaves them as they are: the sum goes to other memory.
};

/// A slot in shared memory for each worker, and weights for all; one thread of
/// the server adds a slot to the weights and wakes its worker.
std::unique_ptr<exchange> shared_ring(size_t bytes, size_t workers,
                                      addition how = addition::in_place);

} // namespace troupe::bench
