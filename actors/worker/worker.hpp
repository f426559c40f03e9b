#pragma once
// A worker: takes weights, has the gradients of its leases computed, and pushes
// them. One push is in flight at a time. With local steps it makes a round of
// steps on its own, and pushes the difference of the weights as the gradient of
// all leases of the round. It may begin the next round before the push is
// answered, with leases that it has and weights of its own, into which the new
// weights are merged later. If the push is not taken, these steps are undone.
//
// An actor that never computes or loads itself, so that it can answer
// cancellations, liveness checks and stops at any time. Its compute actor and
// its loader do that work, each on a thread of its own.

#include "actors/runtime/last_weights.hpp"
#include "actors/runtime/run_clock.hpp"
#include "actors/runtime/still_valid.hpp"
#include "actors/worker/inner_state.hpp"
#include "actors/worker/report_sum.hpp"
#include "messages/interfaces.hpp"

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

struct worker_parts {
  compute_actor compute;
  loader_actor loader;
  session_client_actor session; ///< Gets this worker its place in the cluster.
  last_weights last{}; ///< Who takes the weights that the run ends with.
  /// What the user's program is doing, as stacks of its threads; null: it has
  /// none. Takes up to half a second.
  std::function<std::string()> stacks{};
  /// Steps that it makes on its own between two pushes, unless the server says
  /// otherwise; 0: it pushes each gradient.
  uint32_t local_steps = 0;
  uint32_t overlap_steps = 0; ///< Of a round, before its weights have come.
  inner_state_ptr inner{};    ///< Of its own optimiser; null: it has none.
};

class worker_state {
public:
  using pointer = worker_actor::stateful_pointer<worker_state>;

  static constexpr const char* name = "troupe.worker";

  worker_state(pointer self, worker_parts parts);

  worker_actor::behavior_type make_behavior();

private:
  /// After this many errors of unknown kind without an accepted gradient in
  /// between, the worker gives up: they are no coincidence.
  static constexpr uint32_t most_unknown = 5;

  /// A lease, and its batch once the loader has made it.
  struct assignment {
    lease what;
    batch_ptr batch;
    bool is_asked_for = false;
  };

  /// What is done between the weights and the push: one computation or, with
  /// local steps, a round of them.
  struct round {
    std::optional<version> weights; ///< Nothing: they are not merged yet.
    uint32_t most = 0;              ///< Steps.
    cancel_ptr cancel = std::make_shared<std::atomic<bool>>(false);
    bool goes_on = false;     ///< It begins with weights of the worker's own.
    bool merges = false;      ///< The next task has weights to be merged.
    bool is_undone = false;   ///< Its push before was not taken.
    version before{};         ///< The weights of the round before.
    uint32_t early_most = 0;  ///< Steps before the weights are merged.
    uint32_t early_steps = 0; ///< That were made until then.
    std::vector<assignment>
      early{};                    ///< Of these, as long as they may be undone.
    std::vector<lease_id> from{}; ///< Leases begun, in their order.
    uint64_t epoch = 0;           ///< Of all of them.
    uint64_t steps = 0;           ///< That were made.
    bool computes = false;        ///< Else it waits for a batch.
    report_sum report{};
    double data_seconds = 0; ///< Spent waiting for batches.
  };

  /// The member of the cluster that this worker is while it is attached.
  struct role {
    parameter_server_actor link;
    registration as;
    gradient_way way;     ///< On which gradients leave.
    sequence last{0};     ///< The last gradient.
    sequence requests{0}; ///< So far.
    sequence answered{0}; ///< The last gradient that the server has answered.
  };

  void attach(role next);
  void detach();
  void cancel(version before);
  void give_up();
  caf::result<void> write(version at, sequence settled);
  caf::result<sequence> finish_before_leaving();
  void look_if_finished();
  void stop(const run_end& how);
  void leave(const run_end& how);
  void leave_when_told(const run_end& how);

  void pull(std::vector<lease_id> abandoned = {});
  void take_weights(const release_header& header, const payload& weights);
  void take_refusal(const caf::error& why);
  void look_for_place(const caf::error& why);
  void load();
  void advance();
  void begin_round();
  void begin_early();
  bool may_step() const;
  void take_up_weights();
  void undo_early();
  bool is_last(const round& of) const;
  void compute(assignment work, bool ends);
  void computed(uint64_t asked, bool ends, const gradient_report& report);
  void abandon(const round& given_up);
  void push(const gradient_report& report, const round& done);
  void fail(const caf::error& why);

  /// Wraps a handler so that answers from an earlier role are ignored.
  template <class F>
  auto in_this_role(F f) {
    return while_unchanged(roles_, std::move(f));
  }

  pointer self_;
  worker_parts parts_;
  std::optional<role> role_;
  uint32_t unknown_ = 0; ///< Errors of unknown kind, in a row.
  uint64_t roles_ = 0;   ///< Counts attachments and detachments.
  bool stopped_ = false; ///< The run is over.
  /// Who waits until it has finished; then it takes up nothing new.
  std::optional<caf::typed_response_promise<sequence>> leaving_;
  progress_ptr progress_ = std::make_shared<std::atomic<uint64_t>>(0);
  std::deque<assignment> work_;
  payload weights_;
  payload statistics_; ///< Its own, under `--buffers local`; else empty.
  version weights_version_;
  uint32_t steps_ = 0; ///< Of a round on these weights, if the server says so.
  uint32_t fragment_ = 0; ///< As in a release_header.
  bool goes_on_ = false;  ///< The same.
  bool has_weights_ = false;
  bool dropped_ = false; ///< The last gradient was; compute is not told yet.
  std::optional<round> round_;
  push_id taken_;               ///< Its last gradient that a server has taken.
  run_clock asked_for_weights_; ///< Time since the last push or pull.
  run_clock ready_since_; ///< Time since the weights arrived, or a step ended.
  double wait_seconds_ = 0;
  uint64_t skipped_ = 0; ///< Damaged samples, not yet reported.
};

} // namespace troupe
