#pragma once
// A decorator of a link: packs the gradients of a worker before they take their
// way. Where both ends are in one process they are decompressed at once, so
// that a run has the same results whatever way its tensors take.

#include "actors/worker/error_feedback.hpp"
#include "messages/interfaces.hpp"
#include "messages/transport/compression/compression.hpp"

#include <memory>

namespace troupe {

/// How the workers of a process pack their gradients.
struct compression {
  transport::codec_ptr codec; ///< Null: not at all.
  error_feedback_store store;
};

struct compressing_link_parts {
  parameter_server_actor link; ///< Ends with the decorator, and it with it.
  transport::codec_ptr codec;
  std::shared_ptr<error_feedback> left_out; ///< Or null: what is lost is lost.
  size_t range = 0;                         ///< Of the error feedback.
  bool unpacks = false;                     ///< The server is in this process.
};

parameter_server_actor spawn_compressing_link(caf::actor_system& system,
                                              compressing_link_parts parts);

} // namespace troupe
