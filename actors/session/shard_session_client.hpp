#pragma once
// Connects the shard of this process to its lead, and connects it again to each
// new life of the lead. A new life has its own state, so the shard is made anew
// each time.
//
// An actor; one in each process that runs a shard besides the lead.

#include "actors/runtime/run_clock.hpp"
#include "actors/session/connection_attempts.hpp"
#include "actors/session/lead_places.hpp"
#include "config/values/address.hpp"
#include "messages/interfaces.hpp"
#include "messages/proto/hello.pb.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// A shard that workers can find.
struct open_shard {
  remote_shard_actor handle;
  std::string host;
  uint16_t port = 0;
  std::function<void()> close; ///< Closes its admission.
};

struct shard_session_client_parts {
  std::string host; ///< The lead's host.
  uint16_t port = 0;
  shard_id rank;
  double connect_timeout = 60; ///< s without a lead before giving up.
  bool begins_anew = false;    ///< As those of a worker's session client.
  uint64_t jitter_seed = 0;
  proto::Hello hello;
  /// Makes the shard for a life of the lead. Throws `failure`.
  std::function<open_shard(const proto::Welcome&, const shard_registrar_actor&,
                           const session_client_actor&)>
    make;
  supervisor_actor supervisor;
  /// All shards of this life are there, as the welcome of the lead there says;
  /// may be empty.
  std::function<void(const proto::Welcome&, const config::address& lead)>
    complete{};
  /// How the node ends when the lead is lost, or has not come; empty, or
  /// nothing: it waits for a lead.
  std::function<std::optional<run_end>(const std::string& why)> without_lead{};
  /// Where this node listens in all lives, if others may know; may be empty.
  std::function<std::optional<config::address>()> address{};
  /// How the node ends when it is told that the run goes on with other nodes;
  /// empty if it never is.
  std::function<run_end(const proto::Welcome&)> elsewhere{};
  /// Who holds the lock of the run, if the lead may still be the one that does:
  /// then it is waited for; may be empty.
  std::function<std::optional<std::string>()> holder_of_lock{};
  /// Where another node may hold it by now, as the lead of a later life; may be
  /// empty.
  std::function<std::vector<config::address>()> others{};
  double patience_with_lock = 0; ///< s that it may be held.
  /// Whether a lead that has failed is waited for, as one that is lost.
  bool waits_after_failure = false;
};

class shard_session_client_state {
public:
  using pointer =
    session_client_actor::stateful_pointer<shard_session_client_state>;

  static constexpr const char* name = "troupe.shard-session-client";

  /// Seconds that the shard has, when the lead is lost, for what it has
  /// received.
  static constexpr double for_last_words = 0.5;

  /// Seconds that a lead which lives has to answer again, in a life without
  /// this node.
  static constexpr double for_its_return = 2.5;

  shard_session_client_state(pointer self, shard_session_client_parts parts);

  session_client_actor::behavior_type make_behavior();

private:
  void connect();
  void enter(const proto::Welcome& welcome,
             const shard_registrar_actor& registrar);
  void enlist(const proto::Welcome& welcome,
              const shard_registrar_actor& registrar);
  void stop();
  void told(const run_end& how);
  void lost();
  void drop_shard();
  void refused(const caf::error& why);
  void retry(const std::string& why);
  bool waits_for_lock(const std::string& why);
  void note_lead();
  void end(const run_end& how);
  std::string address() const;

  pointer self_;
  shard_session_client_parts parts_;
  run_clock clock_;
  connection_attempts attempts_;
  lead_places places_;
  shard_registrar_actor registrar_;
  std::optional<open_shard> shard_;
  bool stops_ = false;            ///< This node was told to stop.
  std::optional<double> lost_at_; ///< When it has lost its lead.
  /// Since when the lead is dead, but for its lock.
  std::optional<double> locked_since_;
};

} // namespace troupe
