#pragma once
// Round trips over one of our links: a worker's end and a server's end with a
// path between them, each with the actors that it has in a run. Used by the
// transport benchmark.

#include "bench/transport/by_hand.hpp"
#include "messages/interfaces.hpp"
#include "messages/payload_memory.hpp"
#include "messages/transport/wire/meeting.hpp"

#include <memory>
#include <string>

namespace troupe::bench {

/// What the server does with a gradient.
enum class service {
  echo, ///< Nothing; the answer is always the same weights.
  add,  ///< Adds it to the weights: the answer is the next version.
};

/// A parameter server that accepts everything.
parameter_server_actor spawn_server(caf::actor_system& system, uint64_t count,
                                    service mode,
                                    payload_memory_ptr memory = heap_memory());

/// A coordinator that does nothing.
coordinator_actor spawn_nobody(caf::actor_system& system);

/// @param path inproc | shm | stream. Chunks need two processes: within one
/// process nothing is serialised.
/// @param own Of both ends.
std::unique_ptr<exchange> linked(const std::string& path, size_t bytes,
                                 size_t workers, service mode,
                                 const transport::credentials& own = {});

} // namespace troupe::bench
