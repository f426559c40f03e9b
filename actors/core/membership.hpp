#pragma once
// Who is in the cluster: ranks, lives, liveness, and when training starts.
//
// Every change (a worker in, a worker out) has a number, 1, 2, ..., so that a
// decision can name the membership that it was made for. A rank that returns
// gets a higher life number than it ever had; messages of an older life are
// ignored.
//
// Owned by the coordinator. A value without a clock: times are arguments, in
// seconds of any one clock. Not thread-safe.

#include "messages/ids.hpp"

#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <variant>
#include <vector>

namespace troupe::cores {

struct membership_rules {
  uint32_t workers = 1;     ///< Training starts when all of them joined ...
  double join_timeout = 60; ///< ... or after these s, with at least `fewest`.
  uint32_t max_ranks = 1u << 16; ///< Ranks are below this.
  uint32_t kept = 0; ///< Ranks below this are for workers that ask for them.
  uint32_t fewest = 1;
  uint32_t most = UINT32_MAX; ///< No more are let in at a time.
};

/// A place in the cluster that was given to a worker.
struct seat {
  worker_id worker;
  life_number life;
  uint64_t change = 0; ///< The number of the change that gave it.

  bool operator==(const seat&) const = default;
};

/// Why a worker got no seat.
enum class turned_away : uint8_t {
  rank_taken = 1, ///< The rank that it asked for is in use.
  rank_too_high,  ///< The rank that it asked for is not below `max_ranks`.
  cluster_full,   ///< All ranks are in use.
  too_many        ///< There are `most` workers.
};

std::string_view to_string(turned_away x);

class membership {
public:
  /// An empty cluster that begins to wait for workers at `now`.
  membership(const membership_rules& rules, double now);

  // -- joining and leaving ----------------------------------------------------

  /// Gives a seat: the rank asked for, or else the lowest free one from `kept`
  /// on. Ranks from `workers` on are given out when all lower ones are in use.
  std::variant<seat, turned_away> admit(std::optional<worker_id> rank,
                                        double now);

  /// Takes the seat back. False when this life of the worker has none (it is
  /// unknown, has left, or is an older life).
  bool leave(worker_id who, life_number life);

  /// Records that `who` had this life in an earlier run of the server: its next
  /// one will be higher.
  void remember(worker_id who, life_number life);

  // -- liveness ---------------------------------------------------------------

  /// This life of the worker gave a sign of life. False when it has no seat.
  bool heard(worker_id who, life_number life, double now);

  /// The server itself did not listen for `seconds`: this time does not count
  /// as silence of any worker.
  void excuse(double seconds, double now);

  /// Members without a sign of life for longer than `timeout`, in the order of
  /// ranks.
  std::vector<seat> silent(double now, double timeout) const;

  // -- start of training ------------------------------------------------------

  /// Returns true once, when training is to start. To be called after each
  /// admission and when the join timeout is over.
  bool start_if_due(double now);

  bool started() const { return started_; }

  /// When the join timeout is over.
  double join_deadline() const { return opened_ + rules_.join_timeout; }

  // -- properties -------------------------------------------------------------

  /// Whether this life of the worker has a seat.
  bool contains(worker_id who, life_number life) const;

  size_t size() const { return live_.size(); }

  /// The number of the newest change; 0 before the first.
  uint64_t change() const { return change_; }

  /// All members, in the order of ranks.
  std::vector<seat> members() const;

private:
  struct member {
    seat place;
    double heard;
  };

  worker_id lowest_free() const;
  void occupy(uint32_t rank);

  membership_rules rules_;
  double opened_;
  bool started_ = false;
  uint64_t change_ = 0;
  std::map<worker_id, member> live_;
  std::map<worker_id, life_number> lives_; ///< The highest of each rank.
  std::set<uint32_t> free_;                ///< Free ranks below `top_`.
  uint32_t top_ = 0; ///< Ranks from here on were never given out.
};

} // namespace troupe::cores
