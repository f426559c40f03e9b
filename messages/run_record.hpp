#pragma once
// The description of a run (config/description.hpp) as it lies in checkpoints
// and event logs and travels in the handshake. Those of release 0.1.0, which
// have none, are described by the configuration that they hold.

#include "config/sources/description.hpp"
#include "messages/proto/event_log.pb.h"
#include "messages/proto/hello.pb.h"
#include "messages/proto/manifest.pb.h"

namespace troupe {

void put(const config::run_description& from, proto::RunDescription& to);

config::run_description description_of(const proto::RunDescription& from);

/// Throws `usage_error` if the configuration of an old one cannot be read.
config::run_description description_of(const proto::Manifest& from);
config::run_description description_of(const proto::LogBegin& from);

inline config::run_description description_of(const proto::Welcome& from) {
  return description_of(from.description());
}

} // namespace troupe
