#pragma once
// What workers ask of the parameter server, until it is decided and answered:
// is the message welcome, is the gradient whole and sound, may it be looked at
// now. A worker has one request at a time; its answer is held back until the
// policy releases it, and that is the barrier.
//
// A part of the server's state; not thread-safe.

#include "actors/core/note_window.hpp"
#include "actors/core/step_scheduler.hpp"
#include "actors/server/gathered_sums.hpp"
#include "actors/shards/shard_group.hpp"
#include "actors/state/server_model.hpp"
#include "messages/interfaces.hpp"

#include <deque>
#include <functional>
#include <optional>
#include <string>

namespace troupe {

/// What the server decides about requests that are in order.
struct worker_requests_calls {
  std::function<void(const push_header&, const payload&)> push; ///< Sound.
  std::function<void(const pull_header&)> pull;
  /// A gradient is unusable, for this reason.
  std::function<void(const push_header&, errc, const std::string&)> refuse;
};

struct worker_requests_parts {
  lead_actor::pointer self;
  cores::step_scheduler* scheduler = nullptr;
  const server_model* model = nullptr;
  shard_group* shards = nullptr;
  gradient_sums_ptr sums; ///< Where gradients are added up before; or null.
  /// How far the recorder may be behind: beyond that requests wait.
  cores::note_window* notes = nullptr;
  worker_requests_calls decide;
};

class worker_requests {
public:
  using weights_promise = caf::typed_response_promise<release_header, payload>;
  using weights_result = caf::result<release_header, payload>;

  explicit worker_requests(worker_requests_parts parts);

  // -- requests ---------------------------------------------------------------

  weights_result push(const push_header& header, const payload& gradient);
  weights_result pull(const pull_header& header);

  /// The recorder has caught up by a batch of notes.
  void proceed();

  // -- members ----------------------------------------------------------------

  void enlist(worker_id who, incarnation life, const worker_actor& handle);

  /// The gathered sums that it was to be part of are void. To be called of
  /// whoever goes, known or not.
  void leave_sums(worker_id who, incarnation life) { sums_.leave(who, life); }

  /// Its open request is answered with the reason, by `answer_left`.
  void leave(worker_id who);
  void answer_left(const std::string& reason);

  bool has(worker_id who) const { return members_.contains(who); }

  /// A gradient is applied or dropped.
  void settle(const push_id& id);

  /// For each member: its handle, and the last of its gradients that is
  /// settled.
  void each_member(
    const std::function<void(const worker_actor&, sequence)>& what) const;

  // -- answers ----------------------------------------------------------------

  /// The worker goes on with these weights.
  void release(worker_id who, const release_header& header,
               const payload& weights);

  /// The worker is told that its computation is of no use.
  void cancel(worker_id who);

  /// The run is over: all who ask are told, now and from now on.
  void close();

private:
  /// A worker, and its request that waits for an answer.
  struct member {
    incarnation life;
    worker_actor handle;
    std::optional<weights_promise> asks;
    sequence request; ///< That it asks by.
    sequence settled; ///< Its last gradient that is applied or dropped.
  };

  void accept(const push_header& header, const payload& gradient,
              weights_promise asks);
  void accept(const pull_header& header, weights_promise asks);
  void take(const push_header& header, const payload& gradient, bool sound);
  caf::error objection(const push_header& header);
  caf::error unwelcome(worker_id who, incarnation life,
                       incarnation server) const;
  errc check(const push_header& header, const payload& gradient) const;
  caf::error refuse(const push_header& header, errc why);
  void hold(const request_id& id, weights_promise asks);
  bool must_wait() const;

  void take_part(new_push one);
  gathered_sums_calls calls_of_sums();

  worker_requests_parts parts_;
  policies::by_rank<member> members_;
  std::optional<weights_promise> left_;       ///< Of the one who has just left.
  std::deque<std::function<void()>> waiting_; ///< Requests, in their order.
  gathered_sums sums_;
  bool closed_ = false;
};

} // namespace troupe
