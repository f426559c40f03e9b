#pragma once
// Builds the parts of a parameter server from its settings or from a
// checkpoint, and fills in the manifest of a checkpoint from those parts.
//
// Free functions without state, called by the parameter server when it starts
// and when it takes a checkpoint.

#include "actors/core/step_scheduler.hpp"
#include "actors/weights/server_model.hpp"
#include "messages/proto/manifest.pb.h"

namespace troupe {

struct parameter_server_parts;

/// The policy that the settings name.
policies::policy_spec make_policy_spec(const config::settings& settings,
                                       uint32_t rules = policies::newest_rules);

server_model make_server_model(const parameter_server_parts& parts);

/// What the shards in processes of their own begin with.
shard_beginnings make_beginnings(const parameter_server_parts& parts);

/// Throws `run_error` when the checkpoint belongs to another data set.
cores::step_scheduler make_step_scheduler(const parameter_server_parts& parts);

/// Throws `failure` when the checkpoint to resume from comes from a run with
/// other settings, other data or another script.
void require_same_run(const parameter_server_parts& parts);

/// Throws `run_error` when the checkpoint to resume from belongs to another
/// network, optimiser or data set.
void require_fitting(const parameter_server_parts& parts);

/// Fills in everything except weights, optimiser, counters and files.
void fill_manifest(const parameter_server_parts& parts,
                   const cores::step_scheduler& step_scheduler,
                   proto::Manifest& out);

} // namespace troupe
