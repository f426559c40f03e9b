#include "apps/lab/replay/recomputing.hpp"

#include "actors/runtime/tensor_payload.hpp"
#include "actors/user_process/bodies.hpp"
#include "actors/user_process/shared_blocks.hpp"
#include "apps/lab/replay/recomputed_rounds.hpp"
#include "apps/lab/simulation/machine.hpp"
#include "config/text/failure.hpp"
#include "config/text/value.hpp"

#include <ATen/Parallel.h>

#include <algorithm>
#include <utility>

namespace troupe::replay {

namespace {

class here final : public recomputing {
public:
  here(const computing_parts& computing, int threads,
       const worker_store& states, version start)
    : network_(computing), threads_(threads) {
    if (computing.settings.training.local_steps.most > 0)
      rounds_.emplace(computing, network_.layout(), states, start);
  }

  gradient_report compute(const task& job) override {
    at::set_num_threads(threads_);
    auto out =
      rounds_ ? rounds_->compute(job, network_)
              : network_.compute(job.from.front(), job.weights, job.statistics);
    at::set_num_threads(1); // As in the server.
    return out;
  }

private:
  simulation::replica network_;
  int threads_; ///< Intra-op threads of the recorded workers.
  std::optional<recomputed_rounds> rounds_;
};

class elsewhere final : public recomputing {
public:
  elsewhere(external::process_line_ptr process, external::shared_places memory,
            const computing_parts& computing)
    : process_(std::move(process)),
      timeout_(computing.settings.training.compute_timeout),
      layout_(models::layout_of(computing.settings.training,
                                computing.data.train->classes())),
      order_(make_order(computing.settings, *computing.data.train)),
      blocks_(process_, std::move(memory), layout_),
      gradients_(blocks_.pool_of_gradients()) {
    blocks_.welcome(computing.settings.training, computing.frozen);
    process_->send(external::process_frame_kind::place, 0);
  }

  gradient_report compute(const task& job) override {
    // There are no local steps: they cannot be computed again.
    external::weights_terms terms{job.computed_on, job.last_was_dropped};
    for (const auto& one : job.from)
      process_->send(external::process_frame_kind::lease, one.id.value,
                     external::lease_body(one, order_));
    auto gradient = gradients_.take_tensor();
    blocks_.forget_unused();
    auto weights = blocks_.usable(job.weights);
    auto weights_at = blocks_.place_of(weights);
    auto gradient_at = blocks_.place_of(gradient);
    models::element_range all{0, layout_.count()};
    process_->send(
      external::process_frame_kind::weights, job.from.front().id.value,
      external::weights_body(terms, {weights_at, all}, {gradient_at, all}));
    auto answer = wait_for(job.from);
    sent_ = job.from.front().id;
    gradient_report out;
    out.gradient = to_payload(std::move(gradient));
    out.samples = answer.samples;
    out.loss = answer.loss;
    out.metrics = std::move(answer.metrics);
    return out;
  }

  bool takes_last() const override { return true; }

  void finish(version number, const payload& weights, bool applied) override {
    blocks_.give_last(number, weights, applied ? sent_.value : 0);
  }

private:
  std::string who() const {
    return "process " + std::to_string(process_->pid());
  }

  external::gradient_answer wait_for(std::span<const lease> from) {
    auto of = "lease " + to_string(from.front().id);
    if (!process_->wait_for(timeout_))
      throw run_error(who() + " has sent no gradient of " + of + " in " +
                      config::print(timeout_) + " s (--compute-timeout)");
    auto frame = process_->receive();
    if (!frame)
      throw run_error(process_->why_closed());
    if (frame->kind != external::process_frame_kind::gradient ||
        frame->number != from.front().id.value)
      throw run_error(who() + " did not compute a gradient of " + of +
                      ", as it did in the run");
    auto out = external::read_gradient(frame->body, who());
    auto number_of = [](const lease& one) {
      return one.id.value;
    };
    if (!std::ranges::equal(out.also, from.subspan(1), {}, {}, number_of))
      throw run_error(who() + " made a gradient of " +
                      std::to_string(1 + out.also.size()) +
                      " batches, and in the run it was one of " +
                      std::to_string(from.size()) +
                      ": call step() where "
                      "worker.due says that no other comes");
    return out;
  }

  external::process_line_ptr process_;
  double timeout_; ///< s for one gradient
  models::flat_layout layout_;
  data::epoch_order order_;
  external::shared_blocks blocks_;
  models::flat_pool gradients_;
  lease_id sent_{0}; ///< Whose gradient came last.
};

} // namespace

std::unique_ptr<recomputing> recompute_here(const computing_parts& computing,
                                            int threads,
                                            const worker_store& states,
                                            version start) {
  return std::make_unique<here>(computing, threads, states, start);
}

std::unique_ptr<recomputing> recompute_in(external::process_line_ptr process,
                                          external::shared_places memory,
                                          const computing_parts& computing) {
  return std::make_unique<elsewhere>(std::move(process), std::move(memory),
                                     computing);
}

} // namespace troupe::replay
