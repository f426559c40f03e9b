#pragma once
// Builds the data ledger of a parameter server from its settings or from a
// checkpoint, and reads what a checkpoint says of each rank's data.
//
// Free functions without state, called by the parameter server when it starts.

#include "actors/core/data_ledger.hpp"
#include "messages/proto/manifest.pb.h"

#include <map>

namespace troupe {

struct parameter_server_parts;

/// Throws `failure` when the checkpoint was made with other data or another way
/// to share it out, or when there are too few samples.
cores::data_ledger make_ledger(const parameter_server_parts& parts);

void fill_ledger(const parameter_server_parts& parts,
                 const cores::data_ledger& ledger, proto::DataLedger& out);

/// The data that each rank has to itself, as far as a checkpoint records it.
std::map<worker_id, owned_data> data_of_ranks(const proto::DataLedger& from);

} // namespace troupe
