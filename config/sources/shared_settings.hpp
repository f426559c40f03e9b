#pragma once
// The settings that a cluster shares, on their way between its nodes. At the
// hello a worker says what it was given explicitly; the parameter server
// answers with a line about what does not fit, or with the welcome: all
// settings of the cluster.

#include "config/sources/resolve.hpp"

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace troupe::config {

/// "section.key" and the value as text; empty text: not set.
using pairs = std::vector<std::pair<std::string, std::string>>;

/// For the hello: the settings of the cluster that somebody gave to this node.
pairs explicit_shared_settings(const resolved& own);

/// For the welcome: all settings of the cluster.
pairs shared_settings(const settings& own);

/// Takes the settings of a welcome. Throws `run_error` when one is unknown, not
/// of the cluster or not valid here; the settings are as before then.
void apply_shared_settings(settings& own, const pairs& theirs);

/// For the parameter server: one line on the first of a hello's settings that
/// differs from its `own`, with both values and what to do; empty when all fit.
/// Limits of the run and the like, on which no other node acts, always fit.
std::string conflicts(const settings& own, const pairs& theirs);

/// 16 hex digits over what makes the weights come about as they do: all
/// settings of the cluster but the limits of the run, the number of workers and
/// how often is evaluated, which a resumed run may change.
std::string digest(const settings& all);

} // namespace troupe::config
