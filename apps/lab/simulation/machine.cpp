#include "apps/lab/simulation/machine.hpp"

#include "actors/runtime/run_clock.hpp"
#include "actors/runtime/spawning.hpp"
#include "actors/runtime/tensor_payload.hpp"
#include "config/text/one_line.hpp"
#include "models/engine/replicas.hpp"

#include <algorithm>
#include <exception>
#include <limits>
#include <utility>

namespace troupe::simulation {

// -- computation --------------------------------------------------------------

namespace {

/// Computes in one piece what others compute in segments: in the same
/// micro-batches, on which masks of dropout and statistics depend.
models::compute_engine make_whole_engine(const computing_parts& parts) {
  auto whole = parts;
  if (parts.plan)
    whole.settings.training.micro_batch_size = parts.plan->micro_batch_size;
  return make_engine(whole, parts.data.train->classes());
}

} // namespace

replica::replica(const computing_parts& parts)
  : dtype_(parts.settings.training.dtype),
    rule_(parts.settings.training.buffers),
    parts_(parts.settings.parallel.replicas), engine_(make_whole_engine(parts)),
    gradients_(engine_.layout().count(), engine_.layout().dtype()) {
  for (const auto& own : parts.own_data)
    sources_.push_back({own, make_order(parts.settings, *own)});
  if (sources_.empty())
    sources_.push_back(
      {parts.data.train, make_order(parts.settings, *parts.data.train)});
}

auto replica::source_of(const lease& from) -> source& {
  return sources_.size() == 1 ? sources_.front() : sources_.at(from.part);
}

gradient_report replica::compute(const lease& from, const payload& weights,
                                 const payload& statistics) {
  auto& [train, order] = source_of(from);
  auto indices =
    order.lease_indices(from.epoch, from.first, from.count, from.part);
  auto batch = train->gather(indices, dtype_, from.epoch);
  gradient_report report;
  at::Tensor sum;
  auto about = context_of(from, statistics);
  for (const auto& part : models::cut_batch(batch.samples, parts_)) {
    about.part = part;
    auto first = static_cast<int64_t>(part.first);
    auto count = static_cast<int64_t>(part.count);
    auto gradient = gradients_.take_tensor();
    auto found =
      engine_.run(to_tensor(weights), batch.inputs.narrow(0, first, count),
                  batch.targets.narrow(0, first, count), gradient, about);
    report.samples += found.samples;
    report.loss = report.loss + found.loss;
    if (sum.defined())
      models::add_replica(engine_.layout(), sum, gradient);
    else
      sum = gradient;
  }
  report.statistics = kept_statistics(engine_.layout(), rule_, sum);
  report.gradient = to_payload(std::move(sum));
  report.skipped = train->newly_skipped().size();
  return report;
}

machine::machine(durations how_long, std::unique_ptr<replica> computes)
  : takes(std::move(how_long)), network(std::move(computes)) {
  // nop
}

double machine::draw_seconds(worker_id who, uint64_t n,
                             caf::actor_clock::time_point now) {
  if (!began)
    began = now;
  if (!began_in_life)
    began_in_life = now;
  auto result = takes.draw(who, n);
  if (auto found = slow.find(who); found != slow.end())
    result *= now < found->second.until ? found->second.factor : 1;
  longest = std::max(longest, result);
  return result;
}

std::shared_ptr<machine> make_machine(const computing_parts& parts) {
  const auto& what = parts.settings.simulation;
  auto real = what.gradients != "none";
  return std::make_shared<machine>(
    durations{config::parse_distribution(what.compute_time),
              parts.settings.training.seed},
    real ? std::make_unique<replica>(parts) : nullptr);
}

// -- durations ----------------------------------------------------------------

namespace {

class machine_state {
public:
  using pointer = machine_actor::stateful_pointer<machine_state>;

  static constexpr const char* name = "troupe.simulated-machine";

  machine_state(pointer self, std::shared_ptr<machine> machine, worker_id who,
                std::unique_ptr<local_round> round)
    : self_(self), machine_(std::move(machine)), who_(who),
      round_(std::move(round)) {
    // nop
  }

  machine_actor::behavior_type make_behavior() {
    return {
      [this](compute_atom, const compute_task& task) { return begin(task); },
      [this](cancel_atom) { cancel(); },
      [this](ended_atom, const run_end&) { self_->quit(); },
      [](load_atom, const lease& work) {
        static const auto nothing = std::make_shared<const data::batch>();
        return loaded_batch{work, nothing};
      },
    };
  }

private:
  struct job {
    compute_task task;
    caf::typed_response_promise<gradient_report> asks;
    double began; ///< s since the first computation of the run.
  };

  caf::result<gradient_report> begin(const compute_task& task) {
    auto takes = task.batch
                   ? machine_->draw_seconds(who_, draws_, self_->clock().now())
                   : 0; // The end of a round of local steps.
    job_ = job{task, self_->make_response_promise<gradient_report>(), now()};
    self_->run_delayed(to_timespan(takes), [this, number = ++draws_] {
      if (job_ && number == draws_) // Otherwise it was cancelled.
        finish();
    });
    return job_->asks;
  }

  void finish() {
    auto done = *std::exchange(job_, std::nullopt);
    try {
      auto report = compute(done.task);
      report.seconds = finished(done, false);
      done.asks.deliver(std::move(report));
    } catch (const std::exception& err) {
      done.asks.deliver(caf::make_error(errc::failed, one_line(err)));
    }
  }

  gradient_report compute(const compute_task& task) {
    if (machine_->network && round_ && task.local)
      return make_local_step(task);
    if (machine_->network)
      return machine_->network->compute(task.from, task.weights,
                                        task.statistics);
    gradient_report report;
    report.samples = task.batch ? task.from.count : 0;
    report.loss = std::numeric_limits<double>::quiet_NaN();
    return report;
  }

  gradient_report make_local_step(compute_task task) {
    round_->enter(task);
    gradient_report report;
    if (task.batch)
      report =
        machine_->network->compute(task.from, task.weights, task.statistics);
    auto gradient = task.batch ? to_tensor(report.gradient)
                               : machine_->network->take_gradient();
    round_->leave(task, gradient, report);
    return report;
  }

  void cancel() {
    if (!job_)
      return;
    auto given_up = *std::exchange(job_, std::nullopt);
    gradient_report report;
    report.cancelled = true;
    report.seconds = finished(given_up, true);
    given_up.asks.deliver(std::move(report));
  }

  /// Returns how long it took.
  double finished(const job& work, bool cancelled) {
    auto end = now();
    if (machine_->watch)
      machine_->watch({who_, work.began, end, cancelled});
    return end - work.began;
  }

  double now() const {
    std::chrono::duration<double> since =
      self_->clock().now() - *machine_->began;
    return since.count();
  }

  pointer self_;
  std::shared_ptr<machine> machine_;
  worker_id who_;
  std::unique_ptr<local_round> round_;
  uint64_t draws_ = 0;
  std::optional<job> job_;
};

} // namespace

machine_actor spawn_machine(caf::actor_system& system,
                            std::shared_ptr<machine> shared, worker_id who,
                            std::unique_ptr<local_round> round) {
  return spawn<machine_actor, machine_state>(
    system, placement::scheduled, std::move(shared), who, std::move(round));
}

} // namespace troupe::simulation
