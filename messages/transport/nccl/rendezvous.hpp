#pragma once
// Decides who joins the NCCL communicator of a whole cluster, and when. This is
// the parameter server's part; the worker's part is to join when it is invited.
// The two ends of a pair (pair_carrier.hpp) never change and need none of this.
//
// A communicator has a fixed set of ranks. So each set of members gets a
// numbered epoch with an id of its own; a change of members ends the epoch and
// begins the next. The server is rank 0 and root, the workers follow in the
// order of their ids.
//
//          make_id        invite, begin_root          announce
//   naming ------> gathering ----------------------------> open
//     ^                |  not all came in time               |  broken
//     |                v                                     v
//     +------------ resting <--------------------------------+
//
// Joining an NCCL communicator returns for nobody until all have joined, and
// NCCL does not tell who is missing. So a worker answers twice: that it has
// begun, and that it is ready. A worker that refuses is left out for the rest
// of its life, as is one that repeatedly does not answer. When epochs keep
// failing, NCCL is switched off for good, with the last reason. Workers outside
// an open epoch use the stream.
//
// Pure: time is an argument, in s of any one clock; events go in, orders come
// out, to be carried out in their order. Owned by the collective coordinator,
// which holds its lock around each call.

#include "messages/ids.hpp"

#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

namespace troupe::transport::nccl {

/// Numbers the sets of members during one life of the server: 1, 2, ...
using epoch = strong_id<struct epoch_tag, uint64_t>;

/// ncclUniqueId as it is sent in messages.
using id_bytes = std::array<std::byte, 128>;

/// A worker that offers NCCL.
struct attendee {
  worker_id worker;
  life_number life;

  auto operator<=>(const attendee&) const = default;
};

struct rendezvous_rules {
  double patience = 30;      ///< s until all are ready.
  uint32_t strikes = 2;      ///< Unanswered invitations allowed per worker.
  uint32_t failures = 4;     ///< NCCL is switched off after so many failed
                             ///< epochs in a row that no one worker caused.
  double pause = 1;          ///< s before the next try; doubles each time ...
  double longest_pause = 60; ///< ... up to this. After an epoch that was open
                             ///< so long, past failures are forgotten.
};

// -- orders -------------------------------------------------------------------

/// Ask NCCL for an id; reply with `identified` or `broken`.
struct make_id {
  epoch number;
};

/// Tell the worker to join.
struct invite {
  attendee to;
  epoch number;
  id_bytes id;
  uint32_t rank = 0;
  uint32_t size = 0;
};

/// Begin to join as the server, rank 0.
struct begin_root {
  epoch number;
  id_bytes id;
  uint32_t size = 0;
};

/// Tell the worker that all are ready: operations may be submitted.
struct announce {
  attendee to;
  epoch number;
};

/// Tell the worker that the epoch has ended.
struct dissolve {
  attendee to;
  epoch number;
  std::string why;
};

/// End the server's rank.
struct end_root {
  epoch number;
  std::string why;
};

/// For the log: this worker is not invited again in this life.
struct leave_out {
  attendee who;
  std::string why;
};

/// For the log: nobody is invited again.
struct switch_off {
  std::string why;
};

using order = std::variant<make_id, invite, begin_root, announce, dissolve,
                           end_root, leave_out, switch_off>;
using orders = std::vector<order>;

class rendezvous {
public:
  enum class phase : uint8_t {
    idle = 1,  ///< There are no members.
    naming,    ///< Waiting for the id.
    gathering, ///< Waiting until all are ready.
    open,      ///< Operations may be submitted.
    resting,   ///< Pausing after a failure.
    off        ///< Switched off for good.
  };

  explicit rendezvous(const rendezvous_rules& rules) : rules_(rules) {
    // nop
  }

  // -- events -----------------------------------------------------------------

  /// These are now the members that offer NCCL. Members that have left get no
  /// further orders.
  [[nodiscard]] orders assemble(const std::vector<attendee>& who, double now);

  [[nodiscard]] orders identified(epoch number, const id_bytes& id, double now);

  /// The worker has begun to join. Late and repeated events are ignored, here
  /// and below.
  void accepted(epoch number, const attendee& who);

  /// The worker cannot join.
  [[nodiscard]] orders declined(epoch number, const attendee& who,
                                const std::string& why, double now);

  /// The communicator of this worker is ready; without a worker: the server's.
  [[nodiscard]] orders ready(epoch number, const std::optional<attendee>& who,
                             double now);

  /// A member's communicator has failed, or no id could be made.
  [[nodiscard]] orders broken(epoch number, const std::string& why, double now);

  /// Time has passed. Call it at `next_due`.
  [[nodiscard]] orders due(double now);

  // -- properties -------------------------------------------------------------

  std::optional<double> next_due() const;

  phase state() const { return phase_; }

  /// The newest epoch; 0 before the first.
  epoch number() const { return number_; }

  /// The invited workers, in the order of ranks from 1 on.
  const std::vector<attendee>& members() const { return members_; }

  bool is_open(epoch number) const {
    return phase_ == phase::open && number == number_;
  }

  /// Why the last epoch failed, or why NCCL is off.
  const std::string& why() const { return why_; }

private:
  bool under_way(epoch number) const;
  void choose_members();
  void start(double now, orders& out);
  void end_epoch(const std::string& why, orders& out);
  void fail(const std::string& why, double now, orders& out);
  void rest(const std::string& why, double now, orders& out);
  void strike_silent(orders& out);
  void exclude(const attendee& who, const std::string& why, orders& out);

  rendezvous_rules rules_;
  phase phase_ = phase::idle;
  epoch number_;
  std::string why_;
  double due_ = 0;    ///< End of naming, gathering or resting.
  double opened_ = 0; ///< When the newest open epoch was opened.
  uint32_t failed_in_row_ = 0;
  std::set<attendee> present_;    ///< All workers that offer NCCL.
  std::vector<attendee> members_; ///< Those of them that are invited.
  std::vector<attendee> called_;  ///< Those invited to the newest epoch.
  std::set<attendee> silent_;     ///< Invited, no answer yet.
  std::set<attendee> not_ready_;
  bool root_ready_ = false;
  std::map<attendee, uint32_t> strikes_;
  std::set<attendee> left_out_;
};

} // namespace troupe::transport::nccl
