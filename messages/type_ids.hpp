#pragma once
// The ids that CAF writes on the wire for types and atoms of ours. Wire format:
// append to a block, never insert, remove or reorder; a test holds the numbers.
// Data, atoms and actor handles (interfaces.hpp) each have a range of their
// own, so that one can grow without moving the next.

#include "messages/types.hpp"

// clang-format off
CAF_BEGIN_TYPE_ID_BLOCK(troupe_data, caf::first_custom_type_id)

  CAF_ADD_TYPE_ID(troupe_data, (troupe::errc))
  CAF_ADD_TYPE_ID(troupe_data, (troupe::worker_id))
  CAF_ADD_TYPE_ID(troupe_data, (troupe::shard_id))
  CAF_ADD_TYPE_ID(troupe_data, (troupe::version))
  CAF_ADD_TYPE_ID(troupe_data, (troupe::incarnation))
  CAF_ADD_TYPE_ID(troupe_data, (troupe::sequence))
  CAF_ADD_TYPE_ID(troupe_data, (troupe::lease_id))
  CAF_ADD_TYPE_ID(troupe_data, (troupe::transfer_id))
  CAF_ADD_TYPE_ID(troupe_data, (troupe::push_id))
  CAF_ADD_TYPE_ID(troupe_data, (troupe::lease))
  CAF_ADD_TYPE_ID(troupe_data, (troupe::push_header))
  CAF_ADD_TYPE_ID(troupe_data, (troupe::pull_header))
  CAF_ADD_TYPE_ID(troupe_data, (troupe::release_header))
  CAF_ADD_TYPE_ID(troupe_data, (troupe::watch_header))
  CAF_ADD_TYPE_ID(troupe_data, (troupe::score))
  CAF_ADD_TYPE_ID(troupe_data, (troupe::registration_request))
  CAF_ADD_TYPE_ID(troupe_data, (troupe::registration))
  CAF_ADD_TYPE_ID(troupe_data, (troupe::run_end))
  CAF_ADD_TYPE_ID(troupe_data, (troupe::element_type))
  CAF_ADD_TYPE_ID(troupe_data, (troupe::payload_shape))
  CAF_ADD_TYPE_ID(troupe_data, (troupe::payload))
  CAF_ADD_TYPE_ID(troupe_data, (troupe::chunk))
  CAF_ADD_TYPE_ID(troupe_data, (troupe::snapshot_ptr))
  CAF_ADD_TYPE_ID(troupe_data, (troupe::note_ptr))
  CAF_ADD_TYPE_ID(troupe_data, (troupe::loaded_batch))
  CAF_ADD_TYPE_ID(troupe_data, (troupe::compute_task))
  CAF_ADD_TYPE_ID(troupe_data, (troupe::gradient_report))
  CAF_ADD_TYPE_ID(troupe_data, (std::vector<troupe::worker_id>))
  CAF_ADD_TYPE_ID(troupe_data, (std::vector<troupe::lease>))
  CAF_ADD_TYPE_ID(troupe_data, (troupe::frame_ptr))

CAF_END_TYPE_ID_BLOCK(troupe_data)

CAF_BEGIN_TYPE_ID_BLOCK(troupe_atoms, caf::first_custom_type_id + 200)

  CAF_ADD_ATOM(troupe_atoms, troupe, push_atom)
  CAF_ADD_ATOM(troupe_atoms, troupe, pull_atom)
  CAF_ADD_ATOM(troupe_atoms, troupe, watch_atom)
  CAF_ADD_ATOM(troupe_atoms, troupe, score_atom)
  CAF_ADD_ATOM(troupe_atoms, troupe, release_atom)
  CAF_ADD_ATOM(troupe_atoms, troupe, refuse_atom)
  CAF_ADD_ATOM(troupe_atoms, troupe, chunk_atom)
  CAF_ADD_ATOM(troupe_atoms, troupe, credit_atom)
  CAF_ADD_ATOM(troupe_atoms, troupe, attach_atom)
  CAF_ADD_ATOM(troupe_atoms, troupe, detach_atom)
  CAF_ADD_ATOM(troupe_atoms, troupe, cancel_atom)
  CAF_ADD_ATOM(troupe_atoms, troupe, ping_atom)
  CAF_ADD_ATOM(troupe_atoms, troupe, stop_atom)
  CAF_ADD_ATOM(troupe_atoms, troupe, cast_atom)
  CAF_ADD_ATOM(troupe_atoms, troupe, register_atom)
  CAF_ADD_ATOM(troupe_atoms, troupe, enlist_atom)
  CAF_ADD_ATOM(troupe_atoms, troupe, join_atom)
  CAF_ADD_ATOM(troupe_atoms, troupe, leave_atom)
  CAF_ADD_ATOM(troupe_atoms, troupe, audience_atom)
  CAF_ADD_ATOM(troupe_atoms, troupe, ending_atom)
  CAF_ADD_ATOM(troupe_atoms, troupe, ended_atom)
  CAF_ADD_ATOM(troupe_atoms, troupe, note_atom)
  CAF_ADD_ATOM(troupe_atoms, troupe, finish_atom)
  CAF_ADD_ATOM(troupe_atoms, troupe, write_atom)
  CAF_ADD_ATOM(troupe_atoms, troupe, compute_atom)
  CAF_ADD_ATOM(troupe_atoms, troupe, evaluate_atom)
  CAF_ADD_ATOM(troupe_atoms, troupe, load_atom)
  CAF_ADD_ATOM(troupe_atoms, troupe, tick_atom)
  CAF_ADD_ATOM(troupe_atoms, troupe, connect_atom)
  CAF_ADD_ATOM(troupe_atoms, troupe, frame_atom)

CAF_END_TYPE_ID_BLOCK(troupe_atoms)

// Never leave the process: a link moves the bytes of a payload, and the others
// are pointers into this process.
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::payload)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::snapshot_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::note_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::frame_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::loaded_batch)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::compute_task)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::gradient_report)
