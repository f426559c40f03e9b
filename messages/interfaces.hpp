#pragma once
// Every actor of the troupe by its interface: one line of purpose a handler.
// A request to `push`, `pull` and `watch` waits as long as a policy says (no
// timeout); everything else is answered at once. Errors are of `errc`.

#include "messages/type_ids.hpp"

namespace troupe {

using caf::result;

// -- training -----------------------------------------------------------------

/// What a worker or an evaluator sees of the parameter server. A link has the
/// same interface, so that nobody knows how far away the server is.
using parameter_server_actor = caf::typed_actor<
  // Takes a gradient; the answer is the next weights. Errors: wrong_size,
  // not_finite, protocol_violation, duplicate (then pull), unknown_member,
  // stale_incarnation (then register anew), shutting_down, peer_lost.
  result<release_header, payload>(push_atom, push_header, payload),
  // Gives weights without taking a gradient.
  result<release_header, payload>(pull_atom, pull_header),
  // Gives the newest version due for scoring that is after the given one.
  result<watch_header, payload>(watch_atom, version),
  // Takes note of what an evaluator found.
  result<void>(score_atom, score)>;

/// Computes gradients of its leases, one after another.
using worker_actor = caf::typed_actor<
  // Begins to train as this member, through this link; gradients may go ahead
  // of their pushes by the gradient stream, which may be null.
  result<void>(attach_atom, parameter_server_actor, registration,
               gradient_stream_ptr),
  // The link is gone: stops computing and waits to be attached anew.
  result<void>(detach_atom),
  // The computation on weights before this version is of no use any more.
  result<void>(cancel_atom, version),
  // A checkpoint of this version was taken: what compression has left out up to
  // this gradient is made durable.
  result<void>(write_atom, version, sequence),
  // Says that it is alive.
  result<void>(ping_atom),
  // The run is over.
  result<void>(stop_atom, run_end)>;

/// Scores versions of the weights.
using evaluator_actor = caf::typed_actor<
  // Begins to score, through this link.
  result<void>(attach_atom, parameter_server_actor),
  // The link is gone: waits to be attached anew.
  result<void>(detach_atom),
  // Says that it is alive.
  result<void>(ping_atom),
  // The run is over.
  result<void>(stop_atom, run_end)>;

/// Who is in the cluster.
using coordinator_actor = caf::typed_actor<
  // Makes a worker a member. Errors: rank_taken, settings_conflict,
  // shutting_down.
  result<registration>(register_atom, registration_request, worker_actor),
  // Lets an evaluator look on; gives the life of the server.
  result<incarnation>(register_atom, evaluator_actor),
  // A worker that sends too many bad gradients is sent away.
  result<void>(leave_atom, worker_id, incarnation, std::string),
  // The join timeout is over: training starts with those that are there.
  result<void>(join_atom),
  // Training has stopped: workers are sent home.
  result<void>(ending_atom),
  // All is written: evaluators are sent home, then the coordinator ends.
  result<void>(ended_atom, run_end),
  // Looks after the members.
  result<void>(tick_atom)>;

// -- shards in processes of their own -----------------------------------------

/// A shard elsewhere. Workers send it their parts of pushes and pulls as they
/// send the lead its own; who is answered, and when, the lead says.
using remote_shard_actor = parameter_server_actor::extend<
  // The lead; the state to begin with follows in chunks, in a payload of this
  // shape.
  result<void>(begin_atom, caf::strong_actor_ptr, transfer_id, shard_state,
               payload_shape),
  // A piece of it.
  result<void>(chunk_atom, chunk),
  // So many bytes of what was sent have arrived.
  result<void>(credit_atom, transfer_id, uint64_t),
  // Forgets gradients.
  result<void>(refuse_atom, std::vector<push_id>),
  // Makes a step.
  result<void>(order_atom, shard_step),
  // Answers a worker with the weights as they are now.
  result<void>(release_atom, request_id, release_header),
  // A life of a worker is over.
  result<void>(leave_atom, worker_id, incarnation),
  // Sends its state as it is now, in chunks; without the slots if the flag says
  // so.
  result<void>(state_atom, transfer_id, shard_state),
  // Says that it is alive.
  result<void>(ping_atom),
  // Training is over: workers get no more weights.
  result<void>(ending_atom),
  // The run is over.
  result<void>(stop_atom, run_end)>;

/// Brings the shards of a run together, in the process of the lead, and moves
/// their states.
using shard_registrar_actor = caf::typed_actor<
  // A shard is there, and workers find it at this host and port. Errors:
  // rank_taken, shutting_down.
  result<void>(register_atom, shard_id, std::string, uint16_t,
               remote_shard_actor),
  // The state to begin with has arrived at a shard.
  result<void>(begun_atom, shard_id),
  // A piece of a shard's state.
  result<void>(chunk_atom, shard_id, chunk),
  // So many bytes of the state to begin with have arrived at a shard.
  result<void>(credit_atom, shard_id, transfer_id, uint64_t),
  // The state of the others, of one version, into memory of the whole; the
  // answer comes when all is there.
  result<void>(state_atom, shard_fetch_ptr),
  // A shard is told to stop: so is the run.
  result<void>(leave_atom, shard_id),
  // Looks after the shards.
  result<void>(tick_atom),
  // The run is over.
  result<void>(stop_atom, run_end)>;

/// The lead shard as the other actors of its process see it.
using lead_actor = parameter_server_actor::extend<
  // Names the coordinator; the first message.
  result<void>(coordinator_atom, coordinator_actor),
  // All shards of other processes are there.
  result<void>(shards_atom, shard_registrar_actor,
               std::vector<remote_shard_actor>),
  // A shard elsewhere has its part of a request.
  result<void>(report_atom, part_report),
  // Announces a worker, the path of its tensors and what data it has to itself:
  // its requests are held from now on, not refused.
  result<void>(enlist_atom, worker_id, incarnation, std::string, owned_data,
               worker_actor),
  // Enlisted workers take part from now on.
  result<void>(join_atom, std::vector<worker_id>),
  // A worker is gone, and why.
  result<void>(leave_atom, worker_id, incarnation, std::string),
  // So many evaluators look on.
  result<void>(audience_atom, uint32_t),
  // The run directory cannot be written: the run has failed, and why.
  result<void>(refuse_atom, std::string),
  // The last score is overdue.
  result<void>(tick_atom),
  // A signal: ends the run with a checkpoint, the last score and a summary.
  result<void>(stop_atom)>;

// -- at the side of the parameter server --------------------------------------

/// Makes snapshots durable, one after another.
using checkpoint_writer_actor = caf::typed_actor<
  // Writes a checkpoint; gives its path. Errors: disk.
  result<std::string>(write_atom, snapshot_ptr)>;

/// Writes the run directory and tells how the run goes.
using recorder_actor = caf::typed_actor<
  // Writes a line down.
  result<void>(note_atom, note_ptr),
  // Writes the summary; the last message. Errors: disk.
  result<void>(finish_atom, note_ptr)>;

// -- at the side of a worker or an evaluator ----------------------------------

/// Computes gradients on a thread of its own.
using compute_actor = caf::typed_actor<
  // Forward and backward over one batch. Errors: failed.
  result<gradient_report>(compute_atom, compute_task),
  // The computation that was asked for last is of no use any more.
  result<void>(cancel_atom)>;

/// Scores weights on a thread of its own.
using scorer_actor = caf::typed_actor<
  // Loss and accuracy over the test set. Errors: failed.
  result<score>(evaluate_atom, version, payload)>;

/// Turns leases into batches on a thread of its own.
using loader_actor = caf::typed_actor<
  // Makes the batch of a lease. Errors: bad_data.
  result<loaded_batch>(load_atom, lease)>;

// -- one a process ------------------------------------------------------------

/// Watches over the actors of a process and tells main how it ended.
using supervisor_actor = caf::typed_actor<
  // Nothing works without this actor: the process ends when it dies.
  result<void>(supervise_atom, std::string, caf::strong_actor_ptr),
  // The part of this process is over.
  result<void>(ended_atom, run_end)>;

/// Gets a worker, an evaluator or a shard onto the stage, and back onto it.
using session_client_actor = caf::typed_actor<
  // Its place in the cluster is lost: gets it a new one.
  result<void>(connect_atom),
  // Time for the next try.
  result<void>(tick_atom),
  // Makes durable what compression has left out of a worker's gradients up to
  // this one, with the checkpoint of this version.
  result<void>(write_atom, version, push_id),
  // The run is over for it, or it cannot go on.
  result<void>(ended_atom, run_end),
  // This node is told to stop.
  result<void>(stop_atom)>;

// -- between processes --------------------------------------------------------

/// The published actor. Its one handler never changes: a protobuf `Hello` in, a
/// protobuf `Welcome` and the caller's gateway (or nobody) out.
using admission_actor = caf::typed_actor<
  // Checks protocol version, run and settings of a peer.
  result<std::string, caf::strong_actor_ptr>(std::string)>;

/// The far end of a chunked transfer, at the peer's side.
using link_end_actor = caf::typed_actor<
  // The answer to a push or a pull: the weights follow in chunks.
  result<void>(release_atom, transfer_id, release_header, payload_shape),
  // The answer to a watch: the weights follow in chunks.
  result<void>(watch_atom, transfer_id, watch_header, payload_shape),
  // The answer to any of them is an error.
  result<void>(refuse_atom, transfer_id, caf::error),
  // A piece of an answer.
  result<void>(chunk_atom, chunk),
  // So many bytes of a push have arrived.
  result<void>(credit_atom, transfer_id, uint64_t)>;

/// The near end of a chunked transfer, at the server's side; one a peer.
using gateway_actor = caf::typed_actor<
  // Takes the peer's link; gives the coordinator to register with.
  result<coordinator_actor>(attach_atom, link_end_actor),
  // The same for a link whose tensors have a path of their own.
  result<coordinator_actor>(attach_atom, parameter_server_actor),
  // A gradient follows in chunks.
  result<void>(push_atom, transfer_id, push_header, payload_shape),
  // Asks for weights.
  result<void>(pull_atom, transfer_id, pull_header),
  // Asks for a version to score.
  result<void>(watch_atom, transfer_id, version),
  // Hands a score on.
  result<void>(score_atom, score),
  // A piece of a gradient.
  result<void>(chunk_atom, chunk),
  // So many bytes of an answer have arrived.
  result<void>(credit_atom, transfer_id, uint64_t)>;

/// The link of a peer whose tensors travel in chunks.
using chunked_link_actor = parameter_server_actor::extend_with<link_end_actor>;

/// One end of a path of its own; both ends have it. Local only.
using path_end_actor = caf::typed_actor<
  // What the other end sent.
  result<void>(frame_atom, frame_ptr),
  // The path is closed, and why.
  result<void>(detach_atom, caf::error),
  // Readers have let go of tensors that the other end lent us: tells it.
  result<void>(credit_atom)>;

/// The link of a peer whose tensors have a path of their own.
using framed_link_actor = parameter_server_actor::extend_with<path_end_actor>;

/// Reads a path on a thread of its own.
using path_reader_actor = caf::typed_actor<
  // Waits for the next frame.
  result<void>(tick_atom)>;

/// Writes to a path, on a thread of its own, what would make its end wait.
using path_writer_actor = caf::typed_actor<
  // Writes all that waits.
  result<void>(write_atom)>;

/// Moves on what of a path nobody waits for, on a thread of its own.
using path_poller_actor = caf::typed_actor<
  // It is time to look.
  result<void>(tick_atom),
  // There is something to look at.
  result<void>(write_atom)>;

/// Takes connections for paths, on a thread of its own.
using path_listener_actor = caf::typed_actor<
  // Who shows this token is the peer of this gateway.
  result<void>(enlist_atom, std::string, gateway_actor),
  // Waits for peers.
  result<void>(tick_atom)>;

} // namespace troupe

// clang-format off
CAF_BEGIN_TYPE_ID_BLOCK(troupe_handles, caf::first_custom_type_id + 400)

  CAF_ADD_TYPE_ID(troupe_handles, (troupe::parameter_server_actor))
  CAF_ADD_TYPE_ID(troupe_handles, (troupe::worker_actor))
  CAF_ADD_TYPE_ID(troupe_handles, (troupe::evaluator_actor))
  CAF_ADD_TYPE_ID(troupe_handles, (troupe::coordinator_actor))
  CAF_ADD_TYPE_ID(troupe_handles, (troupe::gateway_actor))
  CAF_ADD_TYPE_ID(troupe_handles, (troupe::link_end_actor))
  CAF_ADD_TYPE_ID(troupe_handles, (troupe::remote_shard_actor))
  CAF_ADD_TYPE_ID(troupe_handles, (troupe::shard_registrar_actor))
  CAF_ADD_TYPE_ID(troupe_handles, (std::vector<troupe::remote_shard_actor>))

CAF_END_TYPE_ID_BLOCK(troupe_handles)
// clang-format on

namespace troupe {

/// Makes CAF know our types; to be called once, before the first actor system.
/// Also registers CAF's own and the middleman's.
void init_messages();

} // namespace troupe
