#pragma once
// A decorator of a link: compresses the gradients of a worker before they are
// sent. Where both ends are in one process it decompresses them at once, so
// that the results of a run do not depend on the transport.
//
// An actor beside the worker; made by its session client.

#include "actors/worker/error_feedback.hpp"
#include "messages/interfaces.hpp"
#include "messages/transport/compression/compression.hpp"

#include <memory>

namespace troupe {

/// How the workers of a process compress their gradients.
struct compression {
  transport::codec_ptr codec; ///< Null: no compression.
  worker_store store;
};

struct compressing_link_parts {
  parameter_server_actor link; ///< Either end ends the other.
  transport::codec_ptr codec;
  std::shared_ptr<error_feedback> feedback; ///< Null: no error feedback.
  size_t range = 0;     ///< Of the error feedback; that of the first fragment.
  bool unpacks = false; ///< The server is in this process.
};

parameter_server_actor spawn_compressing_link(caf::actor_system& system,
                                              compressing_link_parts parts);

} // namespace troupe
