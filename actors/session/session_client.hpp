#pragma once
// Session clients get a worker or an evaluator its place in the cluster: here
// in the same process, or at a parameter server elsewhere, again and again
// while it comes and goes.

#include "actors/links/compressing_link.hpp"
#include "actors/links/simulated_link.hpp"
#include "actors/runtime/run_clock.hpp"
#include "actors/session/connection_attempts.hpp"
#include "actors/session/path_choice.hpp"
#include "config/sources/description.hpp"
#include "messages/interfaces.hpp"
#include "messages/proto/hello.pb.h"

#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace troupe {

/// What a participant is made with once the settings of the cluster are known.
using participant_factory = std::function<participant(
  const proto::Welcome&, const session_client_actor&)>;

// -- within the process of the parameter server -------------------------------

/// Whom the participants of this process work with.
struct local_server {
  lead_actor lead;
  coordinator_actor coordinator;
};

/// A link that can break: it ends then.
struct faulty_link {
  parameter_server_actor link; ///< The participant's end.
  participant face; ///< The participant, as those at the other end see it.
};

/// Makes a link to a house.
using link_factory =
  std::function<faulty_link(const local_server&, const participant&)>;

struct local_session_client_parts {
  local_server with;
  std::function<participant(const session_client_actor&)> make;
  std::optional<worker_id> rank;   ///< Asked for at every registration.
  std::optional<link_terms> terms; ///< Of a simulated link; else a plain one.
  compression packs{};             ///< Of a worker.
  owned_data data{};               ///< Of a worker with files of its own.

  // Where links break and servers come back, as between processes:

  /// The house that can be reached now, if any; asked before each attempt.
  std::function<std::optional<local_server>()> find;
  link_factory tie;            ///< Instead of `terms`.
  double connect_timeout = 60; ///< s without a place until it gives up.
  uint64_t jitter_seed = 0;
};

class local_session_client_state {
public:
  using pointer =
    session_client_actor::stateful_pointer<local_session_client_state>;

  static constexpr const char* name = "troupe.local-session-client";

  local_session_client_state(pointer self, local_session_client_parts parts);

  session_client_actor::behavior_type make_behavior();

private:
  /// Whether a lost place is looked for again.
  bool mends() const { return parts_.find != nullptr; }

  void make_participant();
  void connect();
  bool find_server();
  parameter_server_actor compressed(const parameter_server_actor& link) const;
  void seat(const worker_actor& who);
  void seat(const evaluator_actor& who);
  void refused(const caf::error& why);
  void lost();
  void drop_link();
  void retry();
  void end(const run_end& how);

  pointer self_;
  local_session_client_parts parts_;
  run_clock clock_;
  connection_attempts attempts_;
  parameter_server_actor link_;
  std::shared_ptr<error_feedback> left_out_; ///< By compression; or null.
  std::optional<participant> participant_;
  std::optional<participant> face_; ///< As the house sees the participant.
};

// -- to a parameter server elsewhere ------------------------------------------

struct remote_session_client_parts {
  std::string host;
  uint16_t port = 0;
  double connect_timeout = 60; ///< s without a server until it gives up.
  uint64_t jitter_seed = 0;
  std::optional<worker_id> rank;  ///< Asked for at every registration.
  std::string transport = "auto"; ///< The path that tensors take.
  config::overlap_rule overlap = config::overlap_rule::off;
  transport::nccl::library_ptr nccl{}; ///< For the path of that name; or null.
  /// Where this process makes tensors that others may read; null for none.
  std::shared_ptr<transport::shared_memory> memory;
  proto::Hello hello;
  error_feedback_store
    error_feedback_store_of; ///< Of a worker that packs its gradients.
  participant_factory make;
  /// What a worker that was made has to itself; may be empty.
  std::function<owned_data()> owns;
  supervisor_actor supervisor;
};

class remote_session_client_state {
public:
  using pointer =
    session_client_actor::stateful_pointer<remote_session_client_state>;

  static constexpr const char* name = "troupe.session-client";

  remote_session_client_state(pointer self, remote_session_client_parts parts);

  session_client_actor::behavior_type make_behavior();

private:
  /// Where parts of the weights come from, and how.
  struct door {
    std::string host;
    uint16_t port = 0;
    parameter_server_actor link;
    std::string path;
    payload_shape weights;
    transport::codec_ptr codec; ///< By which gradients are compressed; or null.
    /// By which gradients go ahead; or null.
    gradient_stream_ptr early_gradients;
  };

  void connect();
  void shake_hands_with(size_t door);
  void enter(size_t door, const proto::Welcome& welcome,
             const gateway_actor& gateway);
  void take_part(const proto::Welcome& welcome);
  void tie(door& at, const gateway_actor& gateway, transport::path_ptr way);
  template <class LinkEnd, class Link>
  void attach(door& at, const gateway_actor& gateway, const Link& link);
  void attached(const coordinator_actor& coordinator);
  void join_links();
  void keep_left_out();
  std::vector<door> in_order() const;
  transport::path_terms terms(const door& at, const proto::Welcome& of) const;
  gradient_stream_ptr early_gradients() const;
  void seat(const worker_actor& who, const coordinator_actor& coordinator);
  void seat(const evaluator_actor& who, const coordinator_actor& coordinator);
  void seated(const std::string& as);
  void lost();
  void look_at_path(const std::string& path, const caf::error& why);
  void drop_links();
  void send_home();
  void refused(const caf::error& why);
  void retry(const std::string& why);
  void end(const run_end& how);
  bool is_worker() const;
  std::string address() const;
  std::string paths_taken() const;

  /// Answers that belong to an earlier attempt are ignored.
  template <class F>
  auto in_this_attempt(F f) {
    return attempts_.in_this_one(std::move(f));
  }

  pointer self_;
  remote_session_client_parts parts_;
  run_clock clock_;
  connection_attempts attempts_;
  path_choice paths_;
  std::vector<door> doors_;       ///< The lead's first, then other shards'.
  coordinator_actor coordinator_; ///< Whom the lead's led to.
  parameter_server_actor link_;   ///< The one, or all of them as one.
  std::shared_ptr<error_feedback> left_out_; ///< By compression; or null.
  std::optional<participant> participant_;
  config::run_description run_; ///< For which it was made.
};

} // namespace troupe
