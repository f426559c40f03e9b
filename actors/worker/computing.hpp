#pragma once
// The actors that compute gradients, score weights and load batches, each on a
// thread of its own. They are made together with the worker or evaluator that
// they serve, and end with it.

#include "actors/runtime/run_clock.hpp"
#include "actors/worker/computing_parts.hpp"
#include "actors/worker/local_round.hpp"
#include "config/text/settings.hpp"
#include "data/dataset.hpp"
#include "data/sampling/permutation.hpp"
#include "messages/interfaces.hpp"
#include "messages/payload_memory.hpp"
#include "models/device/batch_copies.hpp"
#include "models/engine/compute.hpp"
#include "models/engine/segment_plan.hpp"
#include "models/layout/flat_pool.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// The engine for these parts. Throws as its constructor.
models::compute_engine make_engine(const computing_parts& parts,
                                   int64_t classes);

/// The same parts, as the worker of this rank gets them.
computing_parts parts_of_rank(computing_parts parts, worker_id who);

/// How a worker describes its samples at registration: empty unless they are
/// its own.
owned_data owned_by(const computing_parts& parts);

/// The order of samples in a training set, by which leases are resolved.
data::epoch_order make_order(const config::settings& settings,
                             const data::dataset& train);

/// What a gradient of this lease depends on, besides weights and batch.
models::batch_context context_of(const lease& from, const payload& statistics);

/// A copy of the new statistics behind a gradient, where workers keep their own
/// from one gradient to the next; else empty.
payload kept_statistics(const models::flat_layout& layout,
                        config::buffers_rule rule, const at::Tensor& gradient);

/// What a worker tells of half precision, as means over the samples of a step.
/// @param overflows Of this batch.
config::metrics fp16_metrics(double scale, uint32_t overflows);

/// What an evaluator reports of a version.
score score_of(version number, const models::evaluation_result& found,
               double seconds);

/// All samples of a test set, in batches for the device of these settings.
/// Refers to the set.
models::batch_source batches_of(const data::dataset& test, uint64_t batch_size,
                                const config::training_settings& settings);

/// Computes gradients. With others it is the first of several replicas of the
/// network: each computes a part of the batch, and it adds up the gradients.
class compute_state {
public:
  using pointer = compute_actor::stateful_pointer<compute_state>;

  static constexpr const char* name = "troupe.compute";

  /// @param others The replicas beside this one, which end with it.
  /// @param inner The state of the worker's own optimiser; null: it makes no
  /// steps of its own.
  compute_state(pointer self, const computing_parts& parts,
                std::vector<compute_actor> others = {},
                const inner_state_ptr& inner = nullptr);

  compute_actor::behavior_type make_behavior();

private:
  /// A batch that several replicas share.
  struct shared_batch {
    caf::typed_response_promise<gradient_report> asks;
    run_clock clock;
    at::Tensor gradient; ///< Of this replica, and then of all.
    compute_task step{}; ///< Of a local step, without its weights.
    /// By part of the batch; that of this replica is without its gradient.
    std::vector<caf::expected<gradient_report>> found{};
    size_t open = 0; ///< Parts that are not found yet.
  };

  caf::expected<gradient_report> compute_alone(const compute_task& task);
  caf::expected<gradient_report> compute(const compute_task& task,
                                         const at::Tensor& gradient);
  caf::expected<at::Tensor> take_gradient(const gradient_way& way);
  caf::result<gradient_report> alone(compute_task task);
  caf::error enter_round(compute_task& task);
  caf::result<gradient_report> end_round(const compute_task& task);
  void end_local_step(const compute_task& task, const at::Tensor& gradient,
                      caf::expected<gradient_report>& found);
  caf::result<gradient_report> share(compute_task task);
  void collect_part(size_t part, caf::expected<gradient_report> found);
  caf::expected<gradient_report> add_up(shared_batch& done);

  pointer self_;
  int threads_;
  config::buffers_rule rule_;
  models::compute_engine engine_;
  models::flat_pool gradients_;
  models::flat_pool on_device_; ///< For gradients that leave from there.
  std::vector<compute_actor> others_;
  std::optional<shared_batch> shared_;
  std::optional<local_round> round_; ///< Nothing: there are no local steps.
};

/// Scores weights over the test set.
class scorer_state {
public:
  using pointer = scorer_actor::stateful_pointer<scorer_state>;

  static constexpr const char* name = "troupe.scorer";

  scorer_state(pointer self, const computing_parts& parts);

  scorer_actor::behavior_type make_behavior();

private:
  caf::result<score> evaluate(version number, const payload& weights);

  pointer self_;
  int threads_;
  uint64_t batch_size_;
  config::training_settings training_;
  std::shared_ptr<const data::dataset> test_;
  models::compute_engine engine_;
};

/// Whether batches take so long that a thread for the loader pays.
/// If not, the loader runs on the thread of its worker.
bool loader_has_thread(const computing_parts& parts);

/// Makes the batches of leases. For a GPU that computes whole networks it
/// copies them there as soon as they are made, while the GPU computes those
/// before. Replicas on several GPUs fetch their parts by themselves.
class loader_state {
public:
  using pointer = loader_actor::stateful_pointer<loader_state>;

  static constexpr const char* name = "troupe.loader";

  loader_state(pointer self, const computing_parts& parts);

  loader_actor::behavior_type make_behavior();

private:
  caf::expected<loaded_batch> load(const lease& work);

  pointer self_;
  bool has_thread_;
  int threads_;
  config::scalar_type dtype_;
  data::batch_memory memory_;
  std::optional<models::batch_copies> copies_;
  std::shared_ptr<const data::dataset> train_;
  data::epoch_order order_;
};

} // namespace troupe
