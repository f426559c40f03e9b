#pragma once
// Who meets whom in the NCCL communicator of a whole cluster, and when: the
// parameter server's part, which decides; the worker's part is to come when it
// is called. The members of a pair never change, which needs none of this.
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
// NCCL's meeting ends for nobody until all have come, and tells nobody who is
// missing. So a worker answers twice: that it has begun, and that it is ready.
// One that refuses is left out for the rest of its life, as is one that often
// does not answer. When epochs keep failing, NCCL is off for good, with the
// last reason. Whoever is not in an open epoch takes the stream.
//
// Pure: time is an argument, in s of any one clock. Facts go in, orders come
// out, in the order in which they are to be carried out. A value; one owner.

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

/// Numbers the memberships of one life of the server: 1, 2, ...
using epoch = strong_id<struct epoch_tag, uint64_t>;

/// ncclUniqueId as it travels.
using id_bytes = std::array<std::byte, 128>;

/// A worker that offers NCCL.
struct attendee {
  worker_id worker;
  incarnation life;

  auto operator<=>(const attendee&) const = default;
};

struct rendezvous_rules {
  double patience = 30;      ///< s until all are ready.
  uint32_t strikes = 2;      ///< A worker may leave so many calls unanswered.
  uint32_t failures = 4;     ///< So many epochs in a row fail by nobody's fault
                             ///< in particular, and it is off.
  double pause = 1;          ///< s before the next try; doubles each time ...
  double longest_pause = 60; ///< ... up to this. An epoch that was open for so
                             ///< long makes past failures forgotten.
};

// -- orders -------------------------------------------------------------------

/// Ask NCCL for an id; answer with `identified`, or `broken`.
struct make_id {
  epoch number;
};

/// Tell the worker to come.
struct invite {
  attendee to;
  epoch number;
  id_bytes id;
  uint32_t rank = 0;
  uint32_t size = 0;
};

/// Begin the server's own end, rank 0.
struct begin_root {
  epoch number;
  id_bytes id;
  uint32_t size = 0;
};

/// Tell the worker that all are ready: operations may be asked for.
struct announce {
  attendee to;
  epoch number;
};

/// Tell the worker that the epoch is over.
struct dissolve {
  attendee to;
  epoch number;
  std::string why;
};

/// End the server's own end.
struct end_root {
  epoch number;
  std::string why;
};

/// For the log: this worker is not called again in this life.
struct leave_out {
  attendee who;
  std::string why;
};

/// For the log: nobody is called again.
struct switch_off {
  std::string why;
};

using order = std::variant<make_id, invite, begin_root, announce, dissolve,
                           end_root, leave_out, switch_off>;
using orders = std::vector<order>;

class rendezvous {
public:
  enum class phase : uint8_t {
    idle = 1,  ///< Nobody is there to meet.
    naming,    ///< Waits for the id.
    gathering, ///< Waits until all are ready.
    open,      ///< Operations may be asked for.
    resting,   ///< After a failure.
    off        ///< For good.
  };

  explicit rendezvous(const rendezvous_rules& rules) : rules_(rules) {
    // nop
  }

  // -- facts ------------------------------------------------------------------

  /// The members that offer NCCL are these now. Those who are gone are told
  /// nothing more.
  [[nodiscard]] orders assemble(const std::vector<attendee>& who, double now);

  [[nodiscard]] orders identified(epoch number, const id_bytes& id, double now);

  /// The worker has begun. What comes late or twice does no harm, here and
  /// below.
  void accepted(epoch number, const attendee& who);

  /// The worker does not come: it cannot.
  [[nodiscard]] orders declined(epoch number, const attendee& who,
                                const std::string& why, double now);

  /// The worker's communicator is ready; without a worker the server's own.
  [[nodiscard]] orders ready(epoch number, const std::optional<attendee>& who,
                             double now);

  /// Somebody's communicator has failed, or no id could be had.
  [[nodiscard]] orders broken(epoch number, const std::string& why, double now);

  /// Time has passed. Ask at `next_due`.
  [[nodiscard]] orders due(double now);

  // -- properties -------------------------------------------------------------

  std::optional<double> next_due() const;

  phase state() const { return phase_; }

  /// The newest epoch; 0 before the first.
  epoch number() const { return number_; }

  /// Who is called, in the order of ranks from 1 on.
  const std::vector<attendee>& members() const { return members_; }

  bool is_open(epoch number) const {
    return phase_ == phase::open && number == number_;
  }

  /// Why the last epoch failed, or why it is off.
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
  double due_ = 0;    ///< Of naming, gathering and resting.
  double opened_ = 0; ///< When the newest open one was opened.
  uint32_t failed_in_row_ = 0;
  std::set<attendee> present_;    ///< All who offer NCCL.
  std::vector<attendee> members_; ///< Those of them who are called.
  std::vector<attendee> called_;  ///< Those of the newest epoch who were.
  std::set<attendee> silent_;     ///< Called, and without an answer.
  std::set<attendee> not_ready_;
  bool root_ready_ = false;
  std::map<attendee, uint32_t> strikes_;
  std::set<attendee> left_out_;
};

} // namespace troupe::transport::nccl
