#pragma once
// Connects the shards of a run that live in processes of their own: registers
// them as they come, sends each its initial state, and watches over them. It
// also assembles whole versions from what they send.
//
// An actor in the process of the lead, so that the lead's mailbox stays free of
// tensors.

#include "actors/core/pause_watch.hpp"
#include "actors/core/progress_deadline.hpp"
#include "actors/runtime/run_clock.hpp"
#include "actors/shards/shard_beginning.hpp"
#include "actors/shards/shard_fetch.hpp"
#include "actors/shards/shard_roster.hpp"
#include "config/values/address.hpp"
#include "messages/interfaces.hpp"
#include "messages/transport/chunked/chunked.hpp"
#include "messages/transport/chunked/outgoing.hpp"
#include "messages/transport/nccl/gpu_exchange.hpp"

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace troupe {

struct shard_registrar_parts {
  lead_actor lead;
  shard_beginnings beginnings;
  std::shared_ptr<shard_roster> roster;
  double liveness_timeout = 15; ///< s of silence until a shard is lost.
  /// Whether the nodes that are left go on together when some are lost.
  bool goes_on = false;
  /// s without a new shard, or more of the state that one is sent, until the
  /// shards that are missing count as lost; 0: never.
  double patience = 0;
  /// Of the lead's GPU: it waits for no lost shard; or null.
  transport::gpu_exchange_ptr exchange{};
  /// Whether workers may be sent to shards beyond loopback.
  bool leaves_host = false;
};

class shard_registrar_state {
public:
  using pointer =
    shard_registrar_actor::stateful_pointer<shard_registrar_state>;

  static constexpr const char* name = "troupe.shard-registrar";

  shard_registrar_state(pointer self, shard_registrar_parts parts);

  shard_registrar_actor::behavior_type make_behavior();

private:
  struct shard {
    shard_id rank;
    config::address where;
    remote_shard_actor handle;
    bool ready = false;
    uint64_t received = 0; ///< Bytes of its state.
    double heard = 0;      ///< When it last gave a sign of life.
    transport::outgoing_payloads outgoing;
  };

  /// What a shard has sent of a version, and done for it.
  struct shard_part {
    uint64_t bytes = 0; ///< In chunks, which come in order.
    bool wrote = false; ///< Into the files itself.
  };

  struct open_fetch {
    shard_fetch_ptr what;
    caf::typed_response_promise<void> asks;
    uint64_t missing = 0; ///< Bytes, over all shards.
    std::map<shard_id, shard_part> parts{};
  };

  using fetch_iterator = std::map<transfer_id, open_fetch>::iterator;

  const std::vector<models::element_range>& ranges() const {
    return parts_.beginnings.ranges;
  }

  caf::result<void> take_in(shard_id rank, const std::string& host,
                            uint16_t port, const remote_shard_actor& who);
  caf::result<std::vector<config::address>> name_all();
  void credit(shard_id rank, transfer_id id, uint64_t received);
  void ready(shard_id rank);
  void note_missing();
  caf::result<void> fetch(const shard_fetch_ptr& fetch);
  shard* speaker(shard_id rank);
  void put(shard_id rank, const chunk& piece);
  void note_written(shard_id rank, transfer_id id, const std::string& trouble);
  uint64_t bytes_of(const shard_fetch& fetch, shard_id rank) const;
  void count_arrived(fetch_iterator open, uint64_t bytes);
  void fail(fetch_iterator open, const std::string& why);
  void copy(const shard_fetch& to, shard_id rank, const chunk& piece) const;
  static void copy(const shard_fetch& to, uint64_t index, uint64_t first,
                   std::span<const std::byte> bytes);
  void lost(const caf::actor_addr& who, const std::string& why);
  void go_on(const std::string& why, bool without_nccl = false);
  void sum_failed(const std::string& why);
  void watch_arrivals();
  bool stood_still() const;
  void ping();
  void heard(shard_id rank, const caf::actor_addr& who);
  void stop(const run_end& how);
  void left(const caf::actor_addr& who);

  auto to(const remote_shard_actor& who) {
    return [this, who](chunk&& piece) {
      self_->send(who, chunk_atom_v, std::move(piece));
    };
  }

  pointer self_;
  shard_registrar_parts parts_;
  run_clock clock_;
  cores::progress_deadline arrivals_; ///< Of what is missing.
  cores::pause_watch pauses_;
  double excused_until_ = 0; ///< After this process stood still.
  std::map<shard_id, shard> shards_;
  bool complete_ = false;
  /// Who wants to know where all are.
  std::vector<caf::typed_response_promise<std::vector<config::address>>> asks_;
  bool goes_on_ = false;              ///< The lead will be told who goes on.
  std::set<caf::actor_addr> leaving_; ///< Told of the next life, still here.
  std::map<transfer_id, open_fetch> fetches_;
};

} // namespace troupe
