#pragma once
// Computes gradients over a network that is cut into segments: some beside the
// worker, as stages of a pipeline, others with the owners of their parameters,
// at the other end of the worker's link. A compute actor, so that the worker
// does not know the difference.
//
// A batch goes through the segments in micro-batches, by a schedule
// (actors/core/pipeline_schedule.hpp). Each segment has one pass at a time. The
// chain has the scores, so it computes the loss. docs/design/0027.
//
// It has no thread of its own: stages that answer run it.

#include "actors/core/pipeline_schedule.hpp"
#include "actors/runtime/run_clock.hpp"
#include "config/text/settings.hpp"
#include "messages/interfaces.hpp"
#include "messages/payload_memory.hpp"
#include "models/engine/loss.hpp"
#include "models/engine/loss_scale.hpp"
#include "models/layout/flat_pool.hpp"
#include "models/layout/shard_cuts.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace troupe {

/// A segment of the network, as the chain sees it.
struct chain_link {
  stage_actor here;    ///< Null: at the other end of the worker's link.
  uint32_t server = 0; ///< Then: the rank of its shard.
  /// Where its running statistics lie among all statistics.
  models::element_range statistics{};
};

struct chain_parts {
  std::vector<chain_link> segments; ///< In the order of forward.
  /// Elements of the worker's own buffers: the parameters of the segments that
  /// are here, then all running statistics.
  uint64_t parameters = 0;
  uint64_t statistics = 0;
  config::training_settings training;
  config::pipeline_order schedule = config::pipeline_order::gpipe;
  uint64_t micro_batch_size = UINT64_MAX; ///< Samples.
  loss_actor loss; ///< Null: the chain computes that of `training`.
  int threads = 1; ///< LibTorch's, for that.
  payload_memory_ptr memory = heap_memory(); ///< For gradients.
};

class chain_state {
public:
  using pointer = compute_actor::stateful_pointer<chain_state>;

  static constexpr const char* name = "troupe.chain";

  chain_state(pointer self, chain_parts parts);

  compute_actor::behavior_type make_behavior();

private:
  using promise = caf::typed_response_promise<gradient_report>;

  /// A segment during a batch.
  struct segment_work {
    std::vector<cores::pipeline_pass> passes;
    size_t next = 0; ///< Of the passes.
    bool busy = false;
    double seconds = 0; ///< Spent computing.
    /// By micro-batch: what the next forward or backward pass takes.
    std::map<uint32_t, activations> inputs{}, gradients{};
  };

  struct job {
    compute_task task;
    promise asks;
    run_clock clock;
    at::Tensor gradient; ///< The worker's own, with the statistics.
    uint64_t samples = 0;
    uint32_t micro_batches = 0;
    payload statistics{}; ///< Those that the batch begins with.
    double loss = 0;
    std::vector<segment_work> segments{};
    size_t busy = 0;   ///< Segments and losses that are asked for.
    bool over = false; ///< Cancelled, or failed for this reason:
    caf::error why{};
    bool overflow = false;  ///< In half precision, of some segment's gradient.
    uint32_t overflows = 0; ///< Before, of the same batch.
  };

  caf::result<gradient_report> begin(const compute_task& task);
  template <class F>
  void launch(promise asks, F make);
  void repeat();
  job make_job(const compute_task& task, promise asks);
  void open_contexts();
  void advance();
  bool is_ready(size_t segment) const;
  void start(size_t segment);
  void collect_answer(size_t segment, cores::pipeline_pass pass,
                      const module_answer& answer);
  void take_scores(uint32_t micro_batch, const activations& scores);
  void ask_for_loss(uint32_t micro_batch, const activations& scores);
  void refuse(size_t segment, const caf::error& why);
  void give_up(const caf::error& why);
  void close_elsewhere();
  void finish();
  /// Elements of the worker's own buffers. It may have none: then its gradient
  /// is empty.
  uint64_t own_count() const { return parts_.parameters + parts_.statistics; }
  module_call make_call(uint32_t micro_batch) const;
  uint64_t first_of(uint32_t micro_batch) const;
  at::Tensor micro_batch_of(const at::Tensor& all, uint32_t which) const;
  at::Tensor statistics_of(const at::Tensor& own) const;
  at::Tensor statistics_of(const at::Tensor& own, size_t segment) const;
  module_actor where(size_t segment) const;

  pointer self_;
  chain_parts parts_;
  models::flat_pool gradients_;
  models::training_loss loss_;
  std::optional<models::loss_scale> scale_; ///< With fp16 alone.
  std::optional<job> job_;
};

} // namespace troupe
