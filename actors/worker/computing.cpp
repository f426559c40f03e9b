#include "actors/worker/computing.hpp"

#include "actors/recording/console.hpp"
#include "actors/runtime/inline_answer.hpp"
#include "actors/runtime/tensor_payload.hpp"
#include "config/text/one_line.hpp"
#include "models/device/accelerator.hpp"
#include "models/engine/loss_scale.hpp"
#include "models/engine/replicas.hpp"
#include "models/guarded.hpp"
#include "models/optim/aggregate.hpp"

#include <ATen/Parallel.h>
#include <c10/core/StreamGuard.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <utility>

namespace troupe {

namespace {

caf::error failed(errc code, const std::exception& err) {
  return caf::make_error(code, one_line(err));
}

/// With `--on-bad-sample skip`: prints a line about each unreadable sample.
/// Returns how many there were.
uint64_t say_skipped(const data::dataset& set) {
  auto all = set.newly_skipped();
  for (const auto& why : all)
    recording::say("skipped      " + why);
  return all.size();
}

/// Begins a gradient that is sent ahead of its push.
std::function<void(uint64_t)> early_send_by(gradient_stream& way,
                                            const payload& gradient) {
  way.begin(gradient);
  return [&way, size = size_of(gradient.shape().type)](uint64_t first) {
    way.ready(first * size);
  };
}

/// A GPU copies to pinned memory while it computes; what other processes see is
/// pinned by whoever makes it.
payload_memory_ptr memory_for(const models::compute_engine& engine,
                              const payload_memory_ptr& memory) {
  auto on_gpu = !engine.device().is_cpu();
  return on_gpu && memory == heap_memory() ? models::pinned_memory() : memory;
}

/// The weights where the engine reads them best: on its GPU if they lie there.
at::Tensor weights_for(const models::compute_engine& engine,
                       const payload& weights) {
  const auto* there = weights.device();
  auto near = there != nullptr && there->device() == engine.device().index();
  return near ? to_tensor(weights, engine.device()) : to_tensor(weights);
}

} // namespace

computing_parts parts_of_rank(computing_parts parts, worker_id who) {
  if (!parts.own_data.empty())
    parts.data.train = parts.own_data.at(who.value);
  return parts;
}

inner_state_ptr make_inner_state(const computing_parts& of) {
  return of.settings.training.local_steps.most > 0
           ? std::make_shared<inner_state>(of.carried)
           : nullptr;
}

owned_data owned_by(const computing_parts& parts) {
  if (parts.settings.data.sharding != config::sharding_kind::local ||
      !parts.data.train)
    return {};
  return {parts.data.train->size(), parts.data.train->digest()};
}

models::compute_engine make_engine(const computing_parts& parts,
                                   int64_t classes) {
  return {parts.settings.training, classes, to_tensor(parts.frozen)};
}

data::epoch_order make_order(const config::settings& settings,
                             const data::dataset& train) {
  auto shared_out = settings.data.sharding == config::sharding_kind::fixed;
  return {settings.training.seed, train.size(),
          shared_out ? settings.cluster.workers : 1};
}

models::batch_context context_of(const lease& from, const payload& statistics) {
  return {from, to_tensor(statistics)};
}

payload kept_statistics(const models::flat_layout& layout,
                        config::buffers_rule rule, const at::Tensor& gradient) {
  if (rule != config::buffers_rule::local || layout.statistics().empty())
    return {};
  return to_payload(layout.statistics_of(gradient).clone());
}

config::metrics fp16_metrics(double scale, uint32_t overflows) {
  return {{config::native_metrics::loss_scale, scale},
          {config::native_metrics::overflows, static_cast<double>(overflows)}};
}

// -- gradients ----------------------------------------------------------------

compute_state::compute_state(pointer self, const computing_parts& parts,
                             std::vector<compute_actor> others,
                             const inner_state_ptr& inner)
  : self_(self), threads_(parts.threads),
    rule_(parts.settings.training.buffers),
    engine_(make_engine(parts, parts.data.train->classes())),
    gradients_(engine_.layout().count(), engine_.layout().dtype(),
               memory_for(engine_, parts.memory)),
    on_device_(engine_.layout().count(), engine_.layout().dtype(),
               engine_.device()),
    others_(std::move(others)) {
  models::require_gpu_for_fp16(parts.settings.training);
  if (!inner)
    return;
  // Its optimiser's memory is filled on the stream that goes on with it.
  c10::OptionalStreamGuard guard{engine_.stream()};
  round_.emplace(parts, engine_.layout(), inner);
}

compute_actor::behavior_type compute_state::make_behavior() {
  at::set_num_threads(threads_);
  for (const auto& other : others_)
    self_->link_to(other);
  return {
    // The task is moved out of the message, so that nobody holds the weights
    // any more when the answer causes the server's step, which then works in
    // place.
    [this](compute_atom, compute_task& task) -> caf::result<gradient_report> {
      auto what = std::exchange(task, {});
      if (what.local)
        if (auto err = enter_round(what))
          return err;
      if (!what.batch)
        return end_round(what);
      return others_.empty() ? alone(std::move(what)) : share(std::move(what));
    },
    [](cancel_atom) {
      // Nothing to do: the task has seen its flag.
    },
    [this](ended_atom, const run_end& end) {
      for (const auto& other : others_)
        self_->send(other, ended_atom_v, end);
      self_->quit();
    },
  };
}

/// Replicas are added up in the host's memory. For pinned memory, too, the
/// device is asked, which may have failed.
caf::expected<at::Tensor>
compute_state::take_gradient(const gradient_way& way) try {
  auto stays = way.from_device && !engine_.device().is_cpu() && others_.empty();
  return models::guarded("taking memory for a gradient", [&] {
    return (stays ? on_device_ : gradients_).take_tensor();
  });
} catch (const std::exception& err) {
  return failed(errc::failed, err);
}

caf::result<gradient_report> compute_state::alone(compute_task task) {
  auto found = compute_alone(task);
  task = {};
  return answer_inline(*self_, std::move(found));
}

// Weights and gradients that stay on a GPU are taken and given on the engine's
// stream; whoever has them else works on one of its own.
caf::expected<gradient_report>
compute_state::compute_alone(const compute_task& task) {
  c10::OptionalStreamGuard guard{engine_.stream()};
  auto gradient = take_gradient(task.way);
  if (!gradient)
    return std::move(gradient.error());
  auto found = compute(task, *gradient);
  if (task.local)
    end_local_step(task, *gradient, found);
  return found;
}

// What is sent is made at the end of the round.
caf::error compute_state::enter_round(compute_task& task) try {
  c10::OptionalStreamGuard guard{engine_.stream()};
  task.way.early = nullptr;
  round_->enter(task);
  return {};
} catch (const std::exception& err) {
  return failed(errc::failed, err);
}

/// Ends a round with the steps that were made.
caf::result<gradient_report>
compute_state::end_round(const compute_task& task) {
  c10::OptionalStreamGuard guard{engine_.stream()};
  auto gradient = take_gradient(task.way);
  if (!gradient)
    return std::move(gradient.error());
  caf::expected<gradient_report> found{gradient_report{}};
  end_local_step(task, *gradient, found);
  return answer_inline(*self_, std::move(found));
}

void compute_state::end_local_step(const compute_task& task,
                                   const at::Tensor& gradient,
                                   caf::expected<gradient_report>& found) try {
  if (!found)
    return;
  c10::OptionalStreamGuard guard{engine_.stream()};
  run_clock clock{self_};
  round_->leave(task, gradient, *found);
  found->seconds = found->seconds + clock.elapsed(self_);
} catch (const std::exception& err) {
  found = failed(errc::failed, err);
}

caf::expected<gradient_report>
compute_state::compute(const compute_task& task,
                       const at::Tensor& gradient) try {
  c10::OptionalStreamGuard guard{engine_.stream()};
  run_clock clock{self_};
  auto about = context_of(task.from, task.statistics);
  about.part = task.part;
  double waited = 0;
  if (task.weights.arriving())
    about.arriving = [&, progress = task.weights.arriving()](uint64_t first,
                                                             uint64_t last) {
      run_clock wait{self_};
      auto there = progress->wait_for(first, last);
      waited += wait.elapsed(self_);
      return there;
    };
  if (task.way.early)
    about.ready = early_send_by(*task.way.early, to_payload(gradient));
  about.cancel = task.cancel.get();
  about.arrived = task.batch->arrived;
  auto found =
    engine_.run(weights_for(engine_, task.weights), task.batch->inputs,
                task.batch->targets, gradient, about);
  gradient_report report;
  report.cancelled = found.cancelled;
  report.gradient = to_payload(gradient);
  if (found.finite)
    report.gradient.know_finite(*found.finite);
  else if (report.gradient.device() != nullptr)
    report.gradient.know_finite(models::all_finite(gradient));
  report.statistics = kept_statistics(engine_.layout(), rule_, gradient);
  report.samples = found.samples;
  report.loss = found.loss;
  report.seconds = clock.elapsed(self_) - waited;
  report.waited = waited;
  if (found.scale)
    report.metrics = fp16_metrics(*found.scale, found.overflows);
  if (task.way.early && !report.cancelled)
    task.way.early->computed(report.seconds);
  return report;
} catch (const std::exception& err) {
  return failed(errc::failed, err);
}

// -- replicas -----------------------------------------------------------------

namespace {

/// Of all replicas the smallest scale and the number of all overflows.
void add_metrics(config::metrics& sum, const config::metrics& next) {
  for (size_t i = 0; i < std::min(sum.size(), next.size()); ++i)
    if (sum[i].name == config::native_metrics::overflows)
      sum[i].value += next[i].value;
    else
      sum[i].value = std::min(sum[i].value, next[i].value);
}

/// The task of a replica: its part of the batch. Its gradient, which is only a
/// part of the worker's, does not leave.
compute_task task_for(const compute_task& whole, const replica_part& part) {
  auto out = whole;
  auto cut = [&part](const at::Tensor& all) {
    return all.narrow(0, static_cast<int64_t>(part.first),
                      static_cast<int64_t>(part.count));
  };
  out.batch = std::make_shared<const data::batch>(
    data::batch{cut(whole.batch->inputs), cut(whole.batch->targets), part.count,
                whole.batch->arrived});
  out.part = part;
  out.way = {};
  out.local.reset();
  return out;
}

} // namespace

caf::result<gradient_report> compute_state::share(compute_task task) {
  auto parts = models::cut_batch(task.batch->samples,
                                 static_cast<uint32_t>(others_.size() + 1));
  auto gradient = take_gradient(task.way);
  if (!gradient)
    return std::move(gradient.error());
  auto asks = self_->make_response_promise<gradient_report>();
  shared_ = shared_batch{asks, run_clock{self_}, std::move(*gradient)};
  if (task.local) {
    shared_->step = task;
    shared_->step.weights = {};
  }
  shared_->found.resize(parts.size(), gradient_report{});
  shared_->open = parts.size();
  for (size_t k = 1; k < parts.size(); ++k)
    self_
      ->request(others_[k - 1], caf::infinite, compute_atom_v,
                task_for(task, parts[k]))
      .then([this,
             k](gradient_report& found) { collect_part(k, std::move(found)); },
            [this, k](caf::error& why) { collect_part(k, std::move(why)); });
  auto own = compute(task_for(task, parts.front()), shared_->gradient);
  task = {}; // Releases the weights, as above.
  if (own)
    own->gradient = {}; // It is the one that the others are added to.
  collect_part(0, std::move(own));
  return asks;
}

void compute_state::collect_part(size_t part,
                                 caf::expected<gradient_report> found) {
  shared_->found[part] = std::move(found);
  if (--shared_->open > 0)
    return;
  auto done = *std::exchange(shared_, std::nullopt);
  auto sum = add_up(done);
  run_inline(self_->system(), [&] { done.asks.deliver(std::move(sum)); });
}

caf::expected<gradient_report> compute_state::add_up(shared_batch& done) try {
  auto sum = done.found.front();
  for (size_t k = 1; sum && k < done.found.size(); ++k) {
    const auto& next = done.found[k];
    if (!next)
      return next.error();
    sum->cancelled |= next->cancelled;
    sum->samples += next->samples;
    sum->loss = sum->loss + next->loss;
    sum->waited = std::max<double>(sum->waited, next->waited);
    add_metrics(sum->metrics, next->metrics);
    if (!sum->cancelled)
      models::add_replica(engine_.layout(), done.gradient,
                          to_tensor(next->gradient));
  }
  if (sum) {
    sum->gradient = to_payload(done.gradient);
    sum->seconds = done.clock.elapsed(self_) - sum->waited;
  }
  if (done.step.local)
    end_local_step(done.step, done.gradient, sum);
  return sum;
} catch (const std::exception& err) {
  return failed(errc::failed, err);
}

// -- scores -------------------------------------------------------------------

scorer_state::scorer_state(pointer self, const computing_parts& parts)
  : self_(self), threads_(parts.threads),
    batch_size_(parts.settings.evaluation.eval_batch_size),
    training_(parts.settings.training), test_(parts.data.test),
    engine_(make_engine(parts, parts.data.test->classes())) {
  // nop
}

scorer_actor::behavior_type scorer_state::make_behavior() {
  at::set_num_threads(threads_);
  return {[this](evaluate_atom, version number, const payload& weights, bool) {
    return evaluate(number, weights);
  }};
}

models::batch_source batches_of(const data::dataset& test, uint64_t batch_size,
                                const config::training_settings& settings) {
  return [&test, batch_size, dtype = settings.dtype,
          memory = data::memory_for(settings.device),
          at = uint64_t{0}](at::Tensor& inputs, at::Tensor& targets) mutable {
    while (at < test.size()) {
      auto count = std::min(batch_size, test.size() - at);
      auto batch = test.gather_range(at, count, dtype, memory);
      at += count;
      inputs = batch.inputs;
      targets = batch.targets;
      if (batch.samples > 0)
        return true; // Otherwise all were skipped.
    }
    return false;
  };
}

score score_of(version number, const models::evaluation_result& found,
               double seconds) {
  score out{number,
            {{config::native_metrics::accuracy, found.accuracy},
             {config::native_metrics::loss, found.loss}},
            found.samples,
            seconds};
  if (found.accuracy_top5)
    out.metrics.push_back(
      {config::native_metrics::accuracy_top5, *found.accuracy_top5});
  return out;
}

caf::result<score> scorer_state::evaluate(version number,
                                          const payload& weights) try {
  run_clock clock{self_};
  c10::OptionalStreamGuard guard{engine_.stream()};
  auto found = engine_.evaluate(weights_for(engine_, weights),
                                batches_of(*test_, batch_size_, training_));
  say_skipped(*test_);
  auto out = score_of(number, found, clock.elapsed(self_));
  config::require_target(training_, out.metrics);
  return out;
} catch (const std::exception& err) {
  return failed(errc::failed, err);
}

// -- batches ------------------------------------------------------------------

namespace {

/// Bytes of a batch that can be copied and converted in less time than two
/// threads need to wake each other: 0.1 to 0.3 ms.
constexpr uint64_t small_batch = 512u << 10;

uint64_t bytes_of_batch(const computing_parts& parts) {
  uint64_t out = parts.settings.training.batch_size * sizeof(float);
  for (auto extent : parts.data.train->shape())
    out *= static_cast<uint64_t>(extent);
  return out;
}

} // namespace

bool loader_has_thread(const computing_parts& parts) {
  return !parts.data.train->only_copies() ||
         bytes_of_batch(parts) > small_batch;
}

loader_state::loader_state(pointer self, const computing_parts& parts)
  : self_(self), has_thread_(loader_has_thread(parts)), threads_(parts.threads),
    dtype_(parts.settings.training.dtype),
    memory_(data::memory_for(parts.settings.training.device)),
    train_(parts.data.train), order_(make_order(parts.settings, *train_)) {
  auto where = models::device_named(parts.settings.training.device);
  if (!parts.plan && !where.is_cpu() && parts.replica_devices.size() <= 1)
    copies_.emplace(where);
}

loader_actor::behavior_type loader_state::make_behavior() {
  if (!has_thread_)
    return {[this](load_atom, const lease& work) -> caf::result<loaded_batch> {
      return load(work);
    }};
  at::set_num_threads(threads_); // For decoding.
  return {[this](load_atom, const lease& work) {
    return answer_inline(*self_, load(work));
  }};
}

caf::expected<loaded_batch> loader_state::load(const lease& work) try {
  auto indices =
    order_.lease_indices(work.epoch, work.first, work.count, work.part);
  auto batch = train_->gather(indices, dtype_, work.epoch, memory_);
  if (copies_)
    models::guarded("copying a batch to the device", [&] {
      auto there = copies_->place(batch.inputs, batch.targets);
      batch.inputs = there.inputs;
      batch.targets = there.targets;
      batch.arrived = there.arrived;
    });
  loaded_batch out{work, std::make_shared<const data::batch>(std::move(batch))};
  out.skipped = say_skipped(*train_);
  return out;
} catch (const std::exception& err) {
  return failed(errc::bad_data, err);
}

} // namespace troupe
