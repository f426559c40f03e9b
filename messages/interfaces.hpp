#pragma once
// The interface of every actor of Troupe: one line for each message that it
// handles.
//
// The nodes (apps/trainer_node) spawn the actors that live as long as the
// process, and the session actors spawn those of one connection. CAF never runs
// two handlers of one actor at the same time, so an actor's state needs no
// lock. The answers to `push`, `pull` and `watch` may come late, as the policy
// decides, so these requests have no timeout; everything else is answered at
// once. All errors are of `errc`.

#include "messages/type_ids.hpp"

namespace troupe {

using caf::result;

// -- training -----------------------------------------------------------------

/// The parameter server as workers and evaluators see it. A link (actors/links)
/// has the same interface, so that the caller need not know whether the server
/// is in its own process or on another host.
using parameter_server_actor = caf::typed_actor<
  // Delivers a gradient; the answer is the next weights. Errors: wrong_size,
  // not_finite, outlier, protocol_violation, duplicate (then pull),
  // unknown_member, stale_incarnation (then register again), shutting_down,
  // peer_lost.
  result<release_header, payload>(push_atom, push_header, payload),
  // Asks for weights without delivering a gradient.
  result<release_header, payload>(pull_atom, pull_header),
  // Asks for the newest version to be scored, if later than the given one;
  // otherwise the answer waits for one.
  result<watch_header, payload>(watch_atom, watch_request),
  // Delivers the score that an evaluator computed.
  result<void>(score_atom, score)>;

/// Computes the gradients of its leases, one lease after another. Runs in the
/// worker's process.
using worker_actor = caf::typed_actor<
  // Starts training as this member, over this link. Gradients leave on the way
  // that is named: while backward still computes them, before their push, or
  // from the memory of a GPU.
  result<void>(attach_atom, parameter_server_actor, registration, gradient_way),
  // The link is lost: stops computing and waits for the next attach.
  result<void>(detach_atom),
  // A gradient computed on weights older than this version is no longer needed.
  result<void>(cancel_atom, version),
  // The server took a checkpoint of this version: writes the error feedback as
  // it was after this gradient to disk.
  result<void>(write_atom, version, sequence),
  // The worker is about to leave: takes up nothing new, and answers with its
  // last gradient that the server has answered, when no other is under way.
  result<sequence>(leave_atom),
  // Answers, to show that it is alive, and how far it has come: with a number
  // that grows as it makes local steps.
  result<uint64_t>(ping_atom),
  // It is about to lose its place, because it hangs: has the user's program
  // write the stacks of its threads to its log. The answer has them, too;
  // empty: there is no such program, or it does not answer.
  result<std::string>(report_atom),
  // The run is over.
  result<void>(stop_atom, run_end)>;

/// Scores versions of the weights. Runs in the evaluator's process.
using evaluator_actor = caf::typed_actor<
  // Starts scoring, over this link.
  result<void>(attach_atom, parameter_server_actor),
  // The link is lost: waits for the next attach.
  result<void>(detach_atom),
  // Answers, to show that it is alive.
  result<void>(ping_atom),
  // The run is over.
  result<void>(stop_atom, run_end)>;

/// What a run ends with: the version; of each member its last gradient in the
/// weights, if there is one; and all weights with their statistics.
using last_version = result<version, std::vector<push_id>, payload>;

/// Admits workers and evaluators to the cluster and notices when they are lost.
/// Runs in the process of the lead.
using coordinator_actor = caf::typed_actor<
  // Registers a worker as a member. Errors: rank_taken, cluster_full,
  // settings_conflict, shutting_down.
  result<registration>(register_atom, registration_request, worker_actor),
  // Registers an evaluator; the answer is the life of the server.
  result<life_number>(register_atom, evaluator_actor),
  // Expels a worker that sent too many bad gradients, or that has failed; the
  // text says why, in its first line.
  result<void>(leave_atom, worker_id, life_number, std::string),
  // This connected worker does not compute for now: it has no place in the
  // cluster until it registers again, but is still told when the run ends.
  result<void>(detach_atom, worker_actor),
  // A worker that hangs loses its place; the text says why. It may come back.
  result<void>(detach_atom, worker_id, life_number, std::string),
  // The join timeout has passed: training starts with the workers present.
  result<void>(join_atom),
  // Training has stopped: tells all workers to stop.
  result<void>(ending_atom),
  // What the run ends with, as in a `last_version`.
  result<void>(ended_atom, version, std::vector<push_id>, payload),
  // Asks for what the run ends with; the answer waits until that is known.
  // Errors: shutting_down: the run ends without it.
  last_version(fetch_atom),
  // A member has received more of the last weights, so it gets more time to
  // leave.
  result<void>(credit_atom),
  // All files are written: tells all evaluators to stop, then terminates.
  result<void>(ended_atom, run_end),
  // Timer: checks that the members are alive.
  result<void>(tick_atom)>;

// -- shards in processes of their own -----------------------------------------

/// A parameter server shard in another process than the lead. Workers send it
/// its part of each push and pull; the lead decides which of these requests are
/// answered, and when.
using remote_shard_actor = parameter_server_actor::extend<
  // Names the lead and announces the initial state, which follows in chunks of
  // a payload of this shape.
  result<void>(begin_atom, caf::strong_actor_ptr, transfer_id, shard_state,
               payload_shape),
  // A chunk of the initial state.
  result<void>(chunk_atom, chunk),
  // The receiver of this transfer has got so many bytes.
  result<void>(credit_atom, transfer_id, uint64_t),
  // Drops these gradients without applying them.
  result<void>(refuse_atom, std::vector<push_id>),
  // Adds up this step's gradients that are only offered, with all other shards
  // at a time. What is ordered later waits for the sum.
  result<void>(sum_atom, shard_step),
  // Asks for the squares of the shard's part of this step's mean gradient.
  result<shard_squares>(norm_atom, shard_step),
  // Begins this step of an optimiser whose steps have a factor for each
  // parameter. The answer is the shard's part of the norms that decide on the
  // factors.
  result<shard_measures>(measure_atom, shard_step),
  // Applies one step to its part of the weights.
  result<void>(order_atom, shard_step),
  // Answers this request of a worker with the current weights.
  result<void>(release_atom, request_id, release_header),
  // This life of a worker has left.
  result<void>(leave_atom, worker_id, life_number),
  // Writes its current state to where it belongs, or sends it in chunks.
  result<void>(state_atom, transfer_id, state_request),
  // Answers, to show that it is alive.
  result<void>(ping_atom),
  // Training has stopped: workers get no more weights.
  result<void>(ending_atom),
  // The run is over.
  result<void>(stop_atom, run_end)>;

/// Collects the shards of a run and transfers their states. Runs in the process
/// of the lead.
using shard_registrar_actor = caf::typed_actor<
  // Registers a shard, which workers reach at this host and port. Errors:
  // rank_taken, shutting_down.
  result<void>(register_atom, shard_id, std::string, uint16_t,
               remote_shard_actor),
  // Where all shards listen, by rank from 1; answers when all are ready.
  result<std::vector<config::address>>(shards_atom),
  // This shard has received its initial state.
  result<void>(begun_atom, shard_id),
  // A chunk of the state that a shard sends.
  result<void>(chunk_atom, shard_id, chunk),
  // This shard has written its state to the files of this transfer, instead of
  // sending it. The text says why the files are not durable; empty if they are.
  result<void>(write_atom, shard_id, transfer_id, std::string),
  // This shard has received so many bytes of its initial state.
  result<void>(credit_atom, shard_id, transfer_id, uint64_t),
  // Copies the states of all other shards, at one version, to where they are
  // wanted; answers when they are complete.
  result<void>(state_atom, shard_fetch_ptr),
  // The process of this shard was told to stop, so the whole run stops.
  result<void>(leave_atom, shard_id),
  // A sum over the shards has failed, for this reason: this life is over.
  result<void>(refuse_atom, std::string),
  // Timer: checks that the shards are alive.
  result<void>(tick_atom),
  // The run is over.
  result<void>(stop_atom, run_end)>;

/// Writes a shard's piece of a checkpoint, in the process of the shard.
using piece_writer_actor = caf::typed_actor<
  // Answers when the piece is durable; false: these files are not here, or
  // cannot be written to. Errors: disk.
  result<bool>(write_atom)>;

/// The lead shard as the other actors of its process see it.
using lead_actor = parameter_server_actor::extend<
  // Names the coordinator; always the first message.
  result<void>(coordinator_atom, coordinator_actor),
  // All shards of other processes are ready.
  result<void>(shards_atom, shard_registrar_actor,
               std::vector<remote_shard_actor>),
  // A remote shard has received its part of a request.
  result<void>(report_atom, part_report),
  // Announces a worker, with what it has registered. From now on its requests
  // wait instead of being refused.
  result<void>(enlist_atom, worker_id, life_number, registration_request,
               worker_actor),
  // These enlisted workers take part in training from now on.
  result<void>(join_atom, std::vector<worker_id>),
  // This life of a worker has left; the text says why.
  result<void>(leave_atom, worker_id, life_number, std::string),
  // The number of evaluators that are connected.
  result<void>(evaluators_atom, uint32_t),
  // The run directory cannot be written, so the run fails; the text says why.
  result<void>(refuse_atom, std::string),
  // Shards are lost, so this life of the run ends; another may begin.
  result<void>(ended_atom, run_end),
  // Somebody will want all weights that the run ends with.
  result<void>(fetch_atom),
  // Timer: the last score is overdue.
  result<void>(tick_atom),
  // Timer: the leases of this worker take too long. Also sent by a replay.
  result<void>(tick_atom, worker_id, life_number),
  // Timer: the window of the policy that began at this version is over. Also
  // sent by a replay.
  result<void>(tick_atom, version),
  // The run goes on with this policy, written as in --policy. Answers, when
  // that is durable, with the version from which on it holds. Also sent by a
  // replay. Errors: settings_conflict: this run cannot have it; failed: not
  // now; shutting_down.
  result<version>(policy_atom, std::string),
  // A signal arrived: ends the run with a checkpoint, a last score and the
  // summary.
  result<void>(stop_atom)>;

// -- at the side of the parameter server --------------------------------------

/// Writes checkpoints, one after another. Runs beside the parameter server.
using checkpoint_writer_actor = caf::typed_actor<
  // Writes a checkpoint; the answer is its path. Errors: disk.
  result<std::string>(write_atom, snapshot_ptr)>;

/// Writes the files of the run directory and prints the progress of the run.
using recorder_actor = caf::typed_actor<
  // Records one event.
  result<void>(note_atom, note_ptr),
  // Writes the summary; the last message. Errors: disk.
  result<void>(finish_atom, note_ptr)>;

// -- at the side of a worker or an evaluator ----------------------------------

/// Computes gradients on a thread of its own.
using compute_actor = caf::typed_actor<
  // Computes forward and backward over one batch. Errors: failed.
  result<gradient_report>(compute_atom, compute_task),
  // The gradient requested last is no longer needed.
  result<void>(cancel_atom),
  // The run is over for its worker.
  result<void>(ended_atom, run_end)>;

/// Computes segments of a network for one worker.
using module_actor = caf::typed_actor<
  // Forward of a micro-batch; the first one of a lease opens a context. Errors:
  // failed, protocol_violation, peer_lost.
  result<module_answer>(forward_atom, module_call),
  // Backward of a micro-batch.
  result<module_answer>(backward_atom, module_call),
  // The contexts of this lease are no longer needed.
  result<void>(cancel_atom, lease_id)>;

/// Computes one segment of a network, on a thread of its own.
using stage_actor = module_actor::extend<
  // Opens the context of a lease.
  result<void>(begin_atom, stage_context_ptr)>;

/// Computes the parts of a network that a shard owns, for one worker, in front
/// of the shard: the worker's pushes and pulls go through it.
using remote_module_actor = parameter_server_actor::extend_with<module_actor>;

/// A remote module whose contexts can be read.
using readable_module_actor = remote_module_actor::extend<
  // Weights of a context, or its gradient once that is complete, in the outputs
  // of the answer. Errors: protocol_violation, peer_lost.
  result<module_answer>(fetch_atom, context_part)>;

/// A readable module, as its server's process sees it.
using module_host_actor = readable_module_actor::extend<
  // Training is over: closes all contexts and opens no more.
  result<void>(ending_atom)>;

/// Computes the loss of a network that is cut into segments.
using loss_actor = caf::typed_actor<
  // Takes the scores of a micro-batch; the outputs of the answer are the
  // gradient of the loss. Errors: failed.
  result<module_answer>(score_atom, module_call)>;

/// Runs a training loop of the program's own. The worker sees a compute actor,
/// the loop sees one module, and the segments see the loss.
using training_loop_actor =
  compute_actor::extend_with<module_actor>::extend_with<loss_actor>::extend<
    // The loop's next batch, when there is one. Errors: shutting_down.
    result<compute_task>(load_atom),
    // Weights of a context, or its gradient after backward.
    result<module_answer>(fetch_atom, context_part),
    // Gives the gradient of this context, with its loss, to the worker.
    result<module_answer>(push_atom, lease_id, double),
    // The accuracy of the run's last version; NaN: not known.
    result<double>(evaluate_atom),
    // The loop has ended before the run; the text says why.
    result<void>(refuse_atom, std::string)>;

/// Evaluates weights: on a thread of its own, or in a process of the user's.
using scorer_actor = caf::typed_actor<
  // Computes loss and accuracy of a version over the test set, or of the
  // average of its weights. Errors: failed.
  result<score>(evaluate_atom, version, payload, bool)>;

/// Takes the version that a run ends with, for a process of the user's.
using last_weights_actor = caf::typed_actor<
  // All of its weights, and whether the last gradient of the process is in
  // them; comes before the end of the run.
  result<void>(ended_atom, version, payload, bool)>;

/// Loads the batches of leases on a thread of its own.
using loader_actor = caf::typed_actor<
  // Loads the batch of a lease. Errors: bad_data.
  result<loaded_batch>(load_atom, lease)>;

/// Receives the frames of a process of the user's.
using frame_owner_actor = caf::typed_actor<
  // A frame: kind, number, body.
  result<void>(frame_atom, uint32_t, uint64_t, std::string),
  // There will be no more frames; the error says why.
  result<void>(detach_atom, caf::error),
  // From time to time: checks how long the process takes.
  result<void>(tick_atom)>;

/// Stands for a process of the user's that computes gradients: compute actor
/// and loader of its worker in one.
using agent_actor = compute_actor::extend_with<loader_actor>::extend_with<
  frame_owner_actor>::extend_with<last_weights_actor>;

/// Stands for a process of the user's that scores.
using external_scorer_actor =
  scorer_actor::extend_with<frame_owner_actor>::extend_with<last_weights_actor>;

/// Follows a folder of checkpoints and scores them, without a server.
using follower_actor = caf::typed_actor<
  // Looks for a newer checkpoint.
  result<void>(tick_atom),
  // Ends, because of a signal.
  result<void>(ended_atom, run_end)>;

// -- one a process ------------------------------------------------------------

/// Monitors the actors of a process and tells main how the process ended.
using supervisor_actor = caf::typed_actor<
  // This actor is essential: the process ends when it terminates.
  result<void>(supervise_atom, std::string, caf::strong_actor_ptr),
  // The work of this process is done.
  result<void>(ended_atom, run_end)>;

/// Connects a worker, an evaluator or a shard to the cluster, and reconnects it
/// when the connection is lost.
using session_client_actor = caf::typed_actor<
  // The membership is lost: registers again.
  result<void>(connect_atom),
  // Timer: tries to connect again.
  result<void>(tick_atom),
  // The server took a checkpoint of this version: has the worker write its
  // error feedback after this gradient to disk.
  result<void>(write_atom, version, push_id),
  // Its worker's process does not compute for now: gives up the place in the
  // cluster, and keeps the connection.
  result<void>(leave_atom),
  // The worker's process computes again: registers again.
  result<void>(join_atom),
  // Fetches what the run ends with; its weights have this shape. Errors:
  // shutting_down: there is nothing; peer_lost, timed_out.
  last_version(fetch_atom, payload_shape),
  // The run is over for its worker, evaluator or shard, or it cannot go on.
  result<void>(ended_atom, run_end),
  // A signal arrived: this process is to stop, at once.
  result<void>(stop_atom),
  // The same within so many seconds: a worker finishes its gradient first.
  result<void>(stop_atom, double)>;

// -- between processes --------------------------------------------------------

/// The published actor, to which every peer speaks first. Its one handler never
/// changes: it takes a serialised protobuf `Hello` and returns a serialised
/// `Welcome` and the caller's gateway (null if the peer was not accepted).
using admission_actor = caf::typed_actor<
  // Checks a peer's protocol version, run and settings.
  result<std::string, caf::strong_actor_ptr>(std::string)>;

/// Connects CAF to the port of another node.
using dialer_actor = caf::typed_actor<
  // The node there, its published actor, and the types of that.
  result<caf::node_id, caf::strong_actor_ptr, std::set<std::string>>(
    caf::connect_atom)>;

/// One end of a link whose tensors are sent in chunks over the actor
/// connection.
using chunk_end_actor = caf::typed_actor<
  // Names the other end, if this one did not know it.
  result<void>(attach_atom, caf::strong_actor_ptr),
  // A frame from the other end: its kind, the number of the request, and the
  // header. Its tensor, of this shape, follows in chunks.
  result<void>(frame_atom, uint8_t, transfer_id, caf::byte_buffer,
               payload_shape),
  // A chunk of a tensor.
  result<void>(chunk_atom, chunk),
  // The other end has received so many bytes of a tensor.
  result<void>(credit_atom, transfer_id, uint64_t),
  // From its own process: sends this frame to the other end.
  result<void>(frame_atom, frame_ptr),
  // From its own process: closes both ends; the error says why.
  result<void>(detach_atom, caf::error)>;

/// Stands for the actor connection of one peer at the server.
using gateway_actor = caf::typed_actor<
  // Names the peer's link; the answer is the coordinator to register with.
  result<coordinator_actor>(attach_atom, parameter_server_actor),
  // Makes the other end for a link whose tensors are sent in chunks.
  result<void>(attach_atom, chunk_end_actor),
  // Asks for what the run ends with, as in a `last_version`; the answer waits
  // until that is known. From then on its weights can be fetched, instead of
  // those that are not trained. Errors: shutting_down: the run ends without it.
  result<version, std::vector<push_id>>(ended_atom),
  // Sends the weights that are not trained, in chunks, to this download.
  result<void>(fetch_atom, caf::strong_actor_ptr),
  // The download has received so many bytes.
  result<void>(credit_atom, transfer_id, uint64_t)>;

/// Receives all weights of one kind, once, for its node: those that are not
/// trained, or the last ones of the run.
using download_actor = caf::typed_actor<
  // Fetches them from this gateway; the answer is all of them. Errors:
  // peer_lost, protocol_violation, timed_out.
  result<payload>(fetch_atom, gateway_actor, payload_shape),
  // A chunk.
  result<void>(chunk_atom, chunk),
  // Timer: checks that chunks still come.
  result<void>(tick_atom)>;

/// An actor that sends and receives frames (actors/links/frame_channel.hpp):
/// there is one at each end of a link. Receives messages of its own process
/// only.
using path_end_actor = caf::typed_actor<
  // A frame from the other end.
  result<void>(frame_atom, frame_ptr),
  // The connection is closed; the error says why.
  result<void>(detach_atom, caf::error),
  // Tensors that lie in the other end's memory are no longer read here: tells
  // the other end.
  result<void>(credit_atom)>;

/// The link of a worker or an evaluator to a server in another process, and to
/// the modules there.
using framed_link_actor = readable_module_actor::extend_with<path_end_actor>;

/// Reads frames from a path, on a thread of its own.
using path_reader_actor = caf::typed_actor<
  // Waits for the next frame.
  result<void>(tick_atom)>;

/// Writes frames that could not be sent at once, on a thread of its own, so
/// that the sending actor never blocks.
using path_writer_actor = caf::typed_actor<
  // Writes all waiting frames.
  result<void>(write_atom)>;

/// Answers when the exchange of a node's GPU (transport/nccl/gpu_exchange.hpp)
/// has what is asked for. Errors: failed.
using exchange_front_actor = caf::typed_actor<
  // The shard's range of the mean of this step's gradients that are offered.
  result<payload>(sum_atom, shard_step),
  // All weights of this version.
  result<payload>(fetch_atom, version),
  // The exchange has answered this request; no payload: it has failed.
  result<void>(report_atom, transfer_id, payload)>;

/// Accepts the connections of tensor paths, on a thread of its own.
using path_listener_actor = caf::typed_actor<
  // The peer that shows this token belongs to this gateway.
  result<void>(enlist_atom, std::string, gateway_actor),
  // Waits for the next connections.
  result<void>(tick_atom)>;

} // namespace troupe

// clang-format off
CAF_BEGIN_TYPE_ID_BLOCK(troupe_handles, caf::first_custom_type_id + 400)

  CAF_ADD_TYPE_ID(troupe_handles, (troupe::parameter_server_actor))
  CAF_ADD_TYPE_ID(troupe_handles, (troupe::worker_actor))
  CAF_ADD_TYPE_ID(troupe_handles, (troupe::evaluator_actor))
  CAF_ADD_TYPE_ID(troupe_handles, (troupe::coordinator_actor))
  CAF_ADD_TYPE_ID(troupe_handles, (troupe::gateway_actor))
  CAF_ADD_TYPE_ID(troupe_handles, (troupe::chunk_end_actor))
  CAF_ADD_TYPE_ID(troupe_handles, (troupe::remote_shard_actor))
  CAF_ADD_TYPE_ID(troupe_handles, (troupe::shard_registrar_actor))
  CAF_ADD_TYPE_ID(troupe_handles, (std::vector<troupe::remote_shard_actor>))

CAF_END_TYPE_ID_BLOCK(troupe_handles)
// clang-format on

namespace troupe {

/// Registers Troupe's types with CAF, and those of CAF and its middleman. To be
/// called once, before the first actor system is created.
void init_messages();

} // namespace troupe
