#pragma once
// Handles the requests of workers until they are decided and answered: is the
// message expected, is the gradient complete and finite, and may it be looked
// at now. A worker has one request at a time. Its answer is held back until the
// policy releases the worker; that is how a policy makes workers wait.
//
// A part of the parameter server's state, called on the server's thread; not
// thread-safe.

#include "actors/core/step_scheduler.hpp"
#include "actors/recording/note_window.hpp"
#include "actors/server/lead.hpp"
#include "actors/shards/shard_group.hpp"
#include "actors/weights/server_model.hpp"
#include "messages/interfaces.hpp"

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

struct worker_requests_parts {
  lead_actor::pointer self;
  cores::step_scheduler* scheduler = nullptr;
  const server_model* model = nullptr;
  shard_group* shards = nullptr;
  /// Whether gradients may be offered, without their numbers.
  bool takes_offers = false;
  /// In a replay: the norm of the gradient that has just arrived, as the run
  /// has found it; else empty.
  std::function<double()> recorded_norm{};
  /// Limits how far the recorder may lag: beyond that requests wait.
  recording::note_window* notes = nullptr;
};

class worker_requests {
public:
  using weights_promise = caf::typed_response_promise<release_header, payload>;
  using weights_result = caf::result<release_header, payload>;

  worker_requests(lead& of, worker_requests_parts parts);

  // -- requests ---------------------------------------------------------------

  weights_result push(const push_header& header, const payload& gradient);
  weights_result pull(const pull_header& header);

  /// The recorder has written a batch of notes: requests that waited go on.
  void proceed();

  /// Whether requests have to wait before they are looked at.
  bool must_wait() const;

  /// Requests that waited go on, unless they still must wait.
  void go_on();

  // -- members ----------------------------------------------------------------

  void enlist(worker_id who, life_number life, const worker_actor& handle);

  /// Removes a member. `answer_left` then answers its open request with a
  /// reason.
  void leave(worker_id who);
  void answer_left(const std::string& reason);

  bool has(worker_id who) const { return members_.contains(who); }

  /// Asks the worker how many local steps it has made so far, and passes on the
  /// answer, if there is one, with the life of the worker.
  void ask_steps(worker_id who,
                 std::function<void(life_number, uint64_t)> then);

  /// A gradient was dropped, or applied.
  void note_settled(const push_id& id, bool applied);

  /// For each member, its last gradient that was applied, if there is one.
  std::vector<push_id> applied() const;

  std::vector<served_worker> all() const;

  // -- answers ----------------------------------------------------------------

  /// Tells the other shards to answer the worker once they have the version of
  /// the header: messages to one shard arrive in order.
  void order_release(worker_id who, const release_header& header);

  /// Answers the worker with these weights: it continues.
  /// @param gathered Whether those who have offered gradients get the weights
  /// gathered from all shards.
  void release(worker_id who, const release_header& header,
               const payload& weights, bool gathered);

  /// Tells the worker that its current computation is of no use.
  void cancel(worker_id who);

  /// The run is over: answers all requests that wait, and from now on each new
  /// one at once.
  void close();

private:
  /// A worker, with its request that waits for an answer.
  struct member {
    life_number life;
    worker_actor handle;
    std::optional<weights_promise> asks;
    sequence request;     ///< The number of that request.
    sequence settled;     ///< Its last gradient that is applied or dropped.
    sequence applied{0};  ///< Its last one that is applied.
    bool offered = false; ///< Its gradient is: its weights come gathered.
  };

  void accept(const push_header& header, const payload& gradient,
              weights_promise asks);
  void accept(const pull_header& header, weights_promise asks);
  void look_into(const request_id& id, arrived_push push);
  void complete(arrived_push push, errc refused,
                const models::exact_sum& squares);
  errc judge(arrived_push& push, const models::exact_sum& squares);
  caf::error objection(const push_header& header);
  caf::error unwelcome(worker_id who, life_number life,
                       life_number server) const;
  arrived_push look_up(const push_header& header,
                       const payload& gradient) const;
  errc check(const arrived_push& push) const;
  caf::error refuse(const arrived_push& push, errc why);
  void hold(const request_id& id, weights_promise asks, bool offered = false);
  bool is_held_up() const;

  lead& lead_;
  worker_requests_parts parts_;
  policies::by_rank<member> members_;
  std::optional<weights_promise> left_; ///< Of the worker that has just left.
  std::deque<std::function<void()>> waiting_; ///< Requests in order of arrival.
  bool closed_ = false;
};

} // namespace troupe
