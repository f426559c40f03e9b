#pragma once
// Connects the shard of this process to its lead, and connects it again to each
// new life of the lead. A new life has its own state, so the shard is made anew
// each time.
//
// An actor; one in each process that runs a shard besides the lead.

#include "actors/session/lead_seeker_state.hpp"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// A shard that workers can find.
struct open_shard {
  remote_shard_actor handle;
  config::address where;       ///< As workers are told.
  std::function<void()> close; ///< Closes its admission.
};

struct shard_session_client_parts : lead_search {
  shard_id rank;
  /// Makes the shard for a life of the lead. Throws `failure`.
  std::function<open_shard(const proto::Welcome&, const shard_registrar_actor&,
                           const session_client_actor&)>
    make;
  /// Called when all shards of this life are there, with the lead's welcome and
  /// address; may be empty. Throws `failure`.
  std::function<void(const proto::Welcome&, const config::address& lead)>
    complete{};
  /// How the node ends when the lead is lost, or has not come; empty, or
  /// nothing: it waits for a lead.
  std::function<std::optional<run_end>(const std::string& why)> without_lead{};
  /// Where this node listens in all lives, if others may know; may be empty.
  std::function<std::optional<config::address>()> address{};
  /// How the node ends when it is told that the run goes on with other nodes;
  /// empty if it never is. Throws `failure`.
  std::function<run_end(const proto::Welcome&)> elsewhere{};
  /// Who holds the lock of the run, if that may still be the lead, which is
  /// then waited for; may be empty.
  std::function<std::optional<std::string>()> holder_of_lock{};
  /// Where another node may hold the lock by now, as the lead of a later life;
  /// may be empty.
  std::function<std::vector<config::address>()> others{};
  double patience_with_lock = 0; ///< s that the lock may be held.
  /// Whether a lead that has failed is waited for, as one that is lost.
  bool waits_after_failure = false;
};

class shard_session_client_state : public lead_seeker_state {
public:
  using pointer =
    session_client_actor::stateful_pointer<shard_session_client_state>;

  static constexpr const char* name = "troupe.shard-session-client";

  /// Seconds that the shard has, when the lead is lost, to handle the messages
  /// that it has received.
  static constexpr double for_last_words = 0.5;

  /// Seconds that a lead which lives has to answer again, in a life without
  /// this node.
  static constexpr double for_its_return = 2.5;

  shard_session_client_state(pointer self, shard_session_client_parts parts);

private:
  void connect() override;
  void register_again() override {
    // nop
  }
  void note_down(const caf::down_msg& down) override;
  void drop_links() override;
  void retry(const std::string& why) override;
  void lost() override;
  void note_end(const run_end& how) override;
  void stop() override;
  void end(const run_end& how) override;

  void enter(const proto::Welcome& welcome,
             const shard_registrar_actor& registrar);
  void enlist(const proto::Welcome& welcome,
              const shard_registrar_actor& registrar);
  void note_all(proto::Welcome welcome,
                const std::vector<config::address>& all);
  void go_elsewhere(const proto::Welcome& run);
  bool waits_for_lock(const std::string& why);
  void note_lead();

  shard_session_client_parts parts_;
  shard_registrar_actor registrar_;
  std::optional<open_shard> shard_;
  bool stops_ = false;            ///< This node was told to stop.
  std::optional<double> lost_at_; ///< When it has lost its lead.
  /// Since when the lead is dead, except that its lock is still held.
  std::optional<double> locked_since_;
};

} // namespace troupe
