#pragma once
// The references of the tensor paths: what one would write with threads,
// sockets and shared memory alone, without actors, headers or checks. The
// benchmark owns an exchange and calls it from one thread.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>

namespace troupe::bench {

/// Makes so many round trips with each worker, all workers at the same time,
/// and returns when all are done.
class exchange {
public:
  virtual ~exchange() = default;

  virtual void run(uint64_t round_trips) = 0;
};

/// Each worker uses a connection over loopback with a thread at either end:
/// `bytes` each way.
std::unique_ptr<exchange> raw_tcp(size_t bytes, size_t workers);

/// PEM files.
struct certificate_files {
  std::filesystem::path cert;
  std::filesystem::path key;
};

/// The same over TLS 1.3, with AES-128-GCM as Troupe has it.
/// @param own Of the server.
std::unique_ptr<exchange> raw_tls(size_t bytes, size_t workers,
                                  const certificate_files& own);

/// What a server does with the weights that its workers read.
enum class addition {
  in_place,    ///< Adds while workers read them.
  to_a_version ///< Writes the sum to other memory.
};

/// A slot in shared memory for each worker, and weights for all; one thread of
/// the server adds a slot to the weights and wakes its worker.
std::unique_ptr<exchange> shared_ring(size_t bytes, size_t workers,
                                      addition how = addition::in_place);

} // namespace troupe::bench
