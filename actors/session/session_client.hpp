#pragma once
// A session client gets a worker or an evaluator its place in the cluster, at a
// parameter server in the same process or in another one, and gets it back
// after a lost connection.
//
// An actor; one for each worker or evaluator, which knows it as `session`.

#include "actors/core/step_scheduler.hpp"
#include "actors/links/compressing_link.hpp"
#include "actors/runtime/exchange_front.hpp"
#include "actors/session/last_download.hpp"
#include "actors/session/lead_seeker_state.hpp"
#include "actors/session/path_choice.hpp"
#include "actors/session/seat.hpp"
#include "actors/session/server_links.hpp"
#include "config/runs/description.hpp"
#include "config/values/address.hpp"
#include "messages/interfaces.hpp"
#include "messages/proto/hello.pb.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// Makes a participant, once the settings of the cluster are known.
/// @param frozen The weights that are not trained; empty if all are.
using participant_factory = std::function<participant(
  const proto::Welcome&, const session_client_actor&, const payload& frozen)>;

// -- within the process of the parameter server -------------------------------

/// The server and the coordinator that participants of this process work with.
struct local_server {
  lead_actor lead;
  coordinator_actor coordinator;
};

/// What a link leads to: a server, or the remote module that stands before it
/// for this worker, which ends with the link.
struct far_end {
  parameter_server_actor server;
  module_actor modules{}; ///< The same actor; null: there are none.
};

/// A link that somebody else has made. If it can break, its actor ends then.
struct made_link {
  parameter_server_actor link; ///< The participant's end.
  participant face;            ///< Stands for the participant at the server.
};

/// Makes a link to a server.
using link_factory =
  std::function<made_link(const local_server&, const participant&)>;

struct local_session_client_parts {
  local_server with;
  std::function<participant(const session_client_actor&)> make;
  std::optional<worker_id> rank; ///< The rank to ask for.
  compression packs{};           ///< For a worker.
  owned_data data{};             ///< For a worker with files of its own.
  uint32_t leases = cores::leases_ahead; ///< As in a worker's registration.
  link_factory tie; ///< Makes the link; null: a plain local one.
  std::string transport = "inproc"; ///< How tensors are sent, for the records.
  bool awaits_score = false;        ///< As in a worker's registration.

  // For runs whose links break and whose servers return, as between processes:

  /// Finds the server that can be reached now, if any; called before each
  /// attempt.
  std::function<std::optional<local_server>()> find;
  double connect_timeout = 60; ///< s without a place before giving up.
  uint64_t jitter_seed = 0;
};

class local_session_client_state : public session_client_state {
public:
  using pointer =
    session_client_actor::stateful_pointer<local_session_client_state>;

  static constexpr const char* name = "troupe.local-session-client";

  local_session_client_state(pointer self, local_session_client_parts parts);

private:
  /// Whether the participant tries again when it has lost its place.
  bool mends() const { return parts_.find != nullptr; }

  void start() override;
  void connect() override;
  void register_again() override;
  void note_down(const caf::down_msg& down) override;
  void drop_links() override;
  void retry(const std::string& why) override;
  void lost() override;
  void fail(const std::string& line) override;
  void end(const run_end& how) override;

  void make_participant();
  bool find_server();
  void tie_to(const local_server& with);
  parameter_server_actor compressed(const parameter_server_actor& link) const;
  void refused(const caf::error& why);

  local_session_client_parts parts_;
  parameter_server_actor link_;
  std::optional<participant> participant_;
  std::optional<participant> face_; ///< The participant, as the server sees it.
};

// -- to a parameter server elsewhere ------------------------------------------

struct remote_session_client_parts : lead_search {
  std::optional<worker_id> rank;  ///< The rank to ask for.
  std::string transport = "auto"; ///< The path for tensors.
  config::overlap_rule overlap = config::overlap_rule::off;
  std::shared_ptr<transport::gpu_network> gpus{}; ///< For NCCL; or null.
  node_exchange exchange{}; ///< With the shard of this node's GPU; or null.
  /// Memory of this process for tensors that others may read; null for none.
  std::shared_ptr<transport::shared_memory> memory;
  /// Measures what bfloat16 does to the speed of this worker, as in the hello.
  /// Throws `failure`.
  std::function<double(const proto::Welcome&)> bfloat16_gain;
  /// For a worker that compresses gradients.
  worker_store feedback_store;
  participant_factory make;
  /// The data that the worker has to itself; may be empty.
  std::function<owned_data()> owns;
  bool awaits_score = false;        ///< As in a worker's registration.
  std::function<uint32_t()> leases; ///< As in the registration.
  bool takes_last = false;          ///< As in the registration.
  std::string device{};             ///< As in the registration.
  /// Called when a worker has its place, with the lead's address; may be empty.
  std::function<void(const proto::Welcome&, const config::address&, worker_id)>
    on_place{};
  /// Whether the node looks for the lead at the other nodes, too, where they go
  /// on without one that has died.
  bool follows = false;
  /// Whether the participant goes on although this setting of the run has
  /// changed; empty: it never does.
  std::function<bool(const std::string& key)> goes_on{};
};

class remote_session_client_state : public lead_seeker_state {
public:
  using pointer =
    session_client_actor::stateful_pointer<remote_session_client_state>;

  static constexpr const char* name = "troupe.session-client";

  remote_session_client_state(pointer self, remote_session_client_parts parts);

private:
  void connect() override;
  void note_down(const caf::down_msg& down) override;
  void drop_links() override;
  void retry(const std::string& why) override;
  void lost() override;
  void pause() override;
  void resume() override;
  last_version fetch_last(const payload_shape& shape) override;
  void stop_within(double seconds) override;
  void end(const run_end& how) override;

  void shake_hands_with(size_t index);
  void measure(const proto::Welcome& welcome);
  void enter(size_t index, const proto::Welcome& welcome,
             const gateway_actor& gateway);
  std::vector<config::address> shards_of(const proto::Welcome& welcome) const;
  bool needs_frozen(const proto::Welcome& welcome) const;
  void download(const proto::Welcome& welcome, const gateway_actor& gateway);
  void take_part(const proto::Welcome& welcome);
  void tie(size_t index, const gateway_actor& gateway, transport::path_ptr way);
  void attached(const coordinator_actor& coordinator);
  void take_seat();
  registration_request wish() const;
  void keep_feedback();
  void seated(const std::optional<registration>& as);
  void note_successors();
  void look_at_path(const std::string& path, const caf::error& why);
  void end_participant();
  bool is_worker() const;
  void hand_over_feedback(sequence settled);

  /// Wraps a handler so that answers to an earlier attempt are ignored.
  template <class F>
  auto in_this_attempt(F f) {
    return attempts_.in_this_one(std::move(f));
  }

  remote_session_client_parts parts_;
  path_choice paths_;
  proto::Welcome welcome_; ///< Of the lead.
  server_links servers_;
  gateway_actor gateway_;         ///< At the lead; null: there is no link.
  coordinator_actor coordinator_; ///< Reached through the lead.
  parameter_server_actor link_;   ///< To one server, or to all as one.
  std::optional<participant> participant_;
  config::run_description run_; ///< The run that it was made for.
  payload frozen_;              ///< What that run does not train; or empty.
  std::string frozen_of_;       ///< The run that it belongs to.
  bool paused_ = false;         ///< The worker's process is out of its loop.
  registration place_;          ///< The last that the worker had.
  last_download last_;
};

} // namespace troupe
