#pragma once
// The ledger of a parameter server from its settings or from a checkpoint, and
// what a checkpoint keeps of it.

#include "actors/core/data_ledger.hpp"
#include "messages/proto/manifest.pb.h"

#include <map>

namespace troupe {

struct parameter_server_parts;

/// Throws `failure` when the checkpoint is of other data or shares it out
/// otherwise, or when there is too little of it.
cores::data_ledger make_ledger(const parameter_server_parts& parts);

void fill_ledger(const parameter_server_parts& parts,
                 const cores::data_ledger& ledger, proto::DataLedger& out);

/// What each rank has to itself, as far as a checkpoint knows.
std::map<worker_id, owned_data> data_of_ranks(const proto::DataLedger& from);

} // namespace troupe
