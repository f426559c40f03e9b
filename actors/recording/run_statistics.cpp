#include "actors/recording/run_statistics.hpp"

#include "actors/recording/summary.hpp"
#include "config/text/value.hpp"
#include "messages/proto/manifest.pb.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace troupe::recording {

namespace {

/// Each worker's number divided by the median of all, to three decimals.
std::vector<std::optional<double>>
beside_median(std::vector<std::optional<double>> all) {
  std::vector<double> known;
  for (const auto& one : all)
    if (one)
      known.push_back(*one);
  std::ranges::sort(known);
  auto half = known.size() / 2;
  auto median = known.empty()           ? 0
                : known.size() % 2 == 1 ? known[half]
                                        : (known[half - 1] + known[half]) / 2;
  for (auto& one : all)
    if (one)
      one = median > 0 ? std::round(1000 * *one / median) / 1000 : 1;
  return all;
}

} // namespace

run_statistics::run_statistics(uint32_t workers,
                               std::optional<config::metric_order> best_by)
  : workers_(workers), best_by_(std::move(best_by)) {
  // nop
}

// -- events -------------------------------------------------------------------

void run_statistics::applied(worker_id who, uint64_t samples,
                             uint64_t staleness, push_times times) {
  ++decided(who, times).accepted;
  ++gradients_applied_;
  samples_applied_ += samples;
  staleness_sum_ += staleness;
  staleness_max_ = std::max(staleness_max_, staleness);
  auto place = std::min<size_t>(staleness, max_staleness_place);
  if (histogram_.size() <= place)
    histogram_.resize(place + 1);
  ++histogram_[place];
}

void run_statistics::dropped(worker_id who, uint64_t samples,
                             push_times times) {
  decided(who, times);
  ++gradients_dropped_;
  samples_dropped_ += samples;
}

void run_statistics::refused(worker_id who, push_times times) {
  decided(who, times);
  ++gradients_refused_;
}

void run_statistics::evaluated(uint64_t step, const config::metrics& found) {
  if (!best_by_)
    best_by_ = config::usual_order(found);
  if (!best_by_)
    return;
  auto value = config::value_of(found, best_by_->name);
  if (!value || std::isnan(*value))
    return;
  // Of equal scores the first is the best.
  if (!best_value_ || best_by_->is_better(*value, *best_value_)) {
    best_value_ = value;
    best_step_ = step;
  }
}

run_statistics::worker_counts& run_statistics::decided(worker_id who,
                                                       push_times times) {
  if (workers_.size() <= who.value)
    workers_.resize(size_t{who.value} + 1);
  auto& result = workers_[who.value];
  ++result.pushed;
  result.times.compute_seconds += times.compute_seconds;
  result.times.wait_seconds += times.wait_seconds;
  result.times.data_seconds += times.data_seconds;
  result.times.idle_seconds += times.idle_seconds;
  return result;
}

// -- figures ------------------------------------------------------------------

double run_statistics::staleness_mean() const noexcept {
  if (gradients_applied_ == 0)
    return 0;
  return static_cast<double>(staleness_sum_) /
         static_cast<double>(gradients_applied_);
}

double run_statistics::wait_share() const noexcept {
  return share_of(&push_times::wait_seconds);
}

double run_statistics::data_wait_share() const noexcept {
  return share_of(&push_times::data_seconds);
}

double run_statistics::share_of(double push_times::*these) const noexcept {
  double part = 0;
  double all = 0;
  for (const auto& x : workers_) {
    part += x.times.*these;
    all += x.times.wait_seconds + x.times.compute_seconds;
  }
  return all > 0 ? part / all : 0;
}

double run_statistics::bubble_share() const noexcept {
  double idle = 0;
  double all = 0;
  for (const auto& x : workers_) {
    idle += x.times.idle_seconds;
    all += x.times.compute_seconds - x.times.data_seconds;
  }
  return all > 0 ? idle / all : 0;
}

std::vector<std::optional<double>> run_statistics::accepted_share() const {
  std::vector<std::optional<double>> result;
  for (const auto& x : workers_) {
    auto& share = result.emplace_back();
    if (x.pushed > 0)
      share = static_cast<double>(x.accepted) / static_cast<double>(x.pushed);
  }
  return result;
}

std::vector<std::optional<double>> run_statistics::slowness() const {
  std::vector<std::optional<double>> means;
  for (const auto& x : workers_) {
    auto& mean = means.emplace_back();
    if (x.pushed > 0)
      mean = x.times.compute_seconds / static_cast<double>(x.pushed);
  }
  return beside_median(std::move(means));
}

std::vector<std::optional<double>> run_statistics::take_recent_slowness() {
  std::vector<std::optional<double>> means;
  for (auto& x : workers_) {
    auto& mean = means.emplace_back();
    if (x.pushed > x.pushed_before)
      mean = (x.times.compute_seconds - x.seconds_before) /
             static_cast<double>(x.pushed - x.pushed_before);
    x.pushed_before = x.pushed;
    x.seconds_before = x.times.compute_seconds;
  }
  return beside_median(std::move(means));
}

void run_statistics::fill(summary& out, const run_times& times) const {
  out.samples_applied = samples_applied_;
  out.samples_dropped = samples_dropped_;
  out.gradients_applied = gradients_applied_;
  out.gradients_dropped = gradients_dropped_;
  out.gradients_refused = gradients_refused_;
  out.samples_skipped = samples_skipped_;
  out.fp16_overflows = fp16_overflows_;
  out.wall_seconds = times.wall_seconds;
  out.virtual_seconds = times.virtual_seconds;
  auto seconds = times.virtual_seconds.value_or(times.wall_seconds);
  out.samples_per_second =
    seconds > 0 ? static_cast<double>(samples_applied_) / seconds : 0;
  out.best_by = best_by_;
  out.best_value = best_value_;
  out.best_step = best_step_;
  out.staleness = {staleness_mean(), staleness_max_, histogram_};
  out.wait_share = wait_share();
  out.data_wait_share = data_wait_share();
  out.accepted_share = accepted_share();
  out.slowness = slowness();
}

// -- checkpoints --------------------------------------------------------------

void run_statistics::save(proto::Counters& out, const run_times& times) const {
  out.Clear();
  out.set_samples_applied(samples_applied_);
  out.set_samples_dropped(samples_dropped_);
  out.set_gradients_applied(gradients_applied_);
  out.set_gradients_dropped(gradients_dropped_);
  out.set_gradients_refused(gradients_refused_);
  out.set_samples_skipped(samples_skipped_);
  out.set_fp16_overflows(fp16_overflows_);
  for (auto x : histogram_)
    out.add_staleness_histogram(x);
  out.set_staleness_sum(staleness_sum_);
  out.set_staleness_max(staleness_max_);
  for (size_t i = 0; i < workers_.size(); ++i) {
    auto* worker = out.add_workers();
    worker->set_worker(static_cast<uint32_t>(i));
    worker->set_pushed(workers_[i].pushed);
    worker->set_accepted(workers_[i].accepted);
    worker->set_compute_seconds(workers_[i].times.compute_seconds);
    worker->set_wait_seconds(workers_[i].times.wait_seconds);
    worker->set_data_seconds(workers_[i].times.data_seconds);
    worker->set_idle_seconds(workers_[i].times.idle_seconds);
  }
  if (best_value_) {
    out.set_best_by(to_string(*best_by_));
    out.set_best_value(*best_value_);
    out.set_best_step(*best_step_);
  }
  out.set_elapsed_seconds(times.elapsed_seconds);
  out.set_wall_seconds(times.wall_seconds);
  if (times.virtual_seconds)
    out.set_virtual_seconds(*times.virtual_seconds);
}

std::optional<best_so_far> best_in(const proto::Counters& in) try {
  best_so_far out{{config::native_metrics::accuracy}, {}, in.best_step()};
  if (in.has_best_value())
    out.by = config::parse_order(in.best_by());
  else if (!in.has_best_accuracy()) // Of release 0.1.0.
    return std::nullopt;
  out.found = {out.by.name,
               in.has_best_value() ? in.best_value() : in.best_accuracy()};
  return in.has_best_step() ? std::optional{out} : std::nullopt;
} catch (const config::bad_value&) {
  return std::nullopt; // By a rule of a later release.
}

run_times run_statistics::load(const proto::Counters& in) {
  run_statistics fresh{static_cast<uint32_t>(workers_.size()), best_by_};
  fresh.samples_applied_ = in.samples_applied();
  fresh.samples_dropped_ = in.samples_dropped();
  fresh.gradients_applied_ = in.gradients_applied();
  fresh.gradients_dropped_ = in.gradients_dropped();
  fresh.gradients_refused_ = in.gradients_refused();
  fresh.samples_skipped_ = in.samples_skipped();
  fresh.fp16_overflows_ = in.fp16_overflows();
  fresh.histogram_.assign(in.staleness_histogram().begin(),
                          in.staleness_histogram().end());
  fresh.staleness_sum_ = in.staleness_sum();
  fresh.staleness_max_ = in.staleness_max();
  for (const auto& x : in.workers()) {
    auto rank = size_t{x.worker()};
    if (fresh.workers_.size() <= rank)
      fresh.workers_.resize(rank + 1);
    fresh.workers_[rank] = {x.pushed(),
                            x.accepted(),
                            {x.compute_seconds(), x.wait_seconds(),
                             x.data_seconds(), x.idle_seconds()},
                            x.pushed(),
                            x.compute_seconds()};
  }
  // A best score by another order does not count any more.
  if (auto best = best_in(in);
      best && best_by_.value_or(best->by) == best->by) {
    fresh.best_by_ = best->by;
    fresh.best_value_ = best->found.value;
    fresh.best_step_ = best->step;
  }
  *this = std::move(fresh);
  run_times result{in.elapsed_seconds(), in.wall_seconds(), std::nullopt};
  if (in.has_virtual_seconds())
    result.virtual_seconds = in.virtual_seconds();
  return result;
}

} // namespace troupe::recording
