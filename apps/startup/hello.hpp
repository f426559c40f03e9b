#pragma once
// What a node sends to the admission of its run, and which settings it takes
// from the answer. Pure functions.

#include "config/sources/resolve.hpp"
#include "messages/proto/hello.pb.h"

namespace troupe::app {

proto::Hello make_hello(const config::resolved& config);

/// The settings of this node, combined with those of the cluster from the
/// server. Throws `run_error` when they are not valid here.
config::settings join_settings(config::settings own,
                               const proto::Welcome& welcome);

} // namespace troupe::app
