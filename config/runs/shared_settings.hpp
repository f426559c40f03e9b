#pragma once
// The settings that the nodes of a cluster share. In its hello a worker sends
// the settings that it was given explicitly; the parameter server answers with
// a line about a conflict, or with a welcome that holds all settings of the
// cluster. Pure functions; any thread.

#include "config/sources/resolve.hpp"

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace troupe::config {

/// "section.key" and the value as text; empty text: not set.
using pairs = std::vector<std::pair<std::string, std::string>>;

/// For the hello: the settings of the cluster that were given to this node.
pairs explicit_shared_settings(const resolved& own);

/// For the welcome: all settings of the cluster.
pairs shared_settings(const settings& own);

/// Takes over the settings of a welcome. Throws `run_error` when one is
/// unknown, not a setting of the cluster or not valid here; then nothing
/// changes.
void apply_shared_settings(settings& own, const pairs& theirs);

/// For the parameter server: one line about the first setting of a hello that
/// differs from its `own`, with both values and what to do; empty if there is
/// none. Settings on which no other node acts, such as limits of the run, may
/// differ.
std::string conflicts(const settings& own, const pairs& theirs);

/// A digest, as 16 hex digits, of the settings that determine the weights: all
/// settings of the cluster except the limits of the run, the number of workers
/// and the evaluation frequency, which a resumed run may change.
std::string digest(const settings& all);

} // namespace troupe::config
