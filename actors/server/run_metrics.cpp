#include "actors/server/run_metrics.hpp"

#include "actors/core/take_held.hpp"
#include "config/runs/policy_change.hpp"
#include "config/schema/policies.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

namespace troupe {

namespace {

recording::push_times times_of(const push_header& header) {
  return {header.compute_seconds + header.data_seconds, header.wait_seconds,
          header.data_seconds, header.idle_seconds};
}

/// As the worker tells it, if that can be.
uint64_t overflows_of(const push_header& header) {
  auto found =
    config::value_of(header.metrics, config::native_metrics::overflows);
  return found && *found >= 0 && *found <= UINT32_MAX
           ? static_cast<uint64_t>(*found)
           : 0;
}

/// Means over the samples of those gradients that have a metric.
class metric_means {
public:
  void add(const config::metrics& found, uint64_t samples) {
    for (const auto& one : found) {
      auto at = std::ranges::find(sums_, one.name, &config::metric::name);
      if (at == sums_.end()) {
        at = sums_.insert(at, {one.name, 0});
        samples_.push_back(0);
      }
      at->value += one.value * static_cast<double>(samples);
      samples_[static_cast<size_t>(at - sums_.begin())] += samples;
    }
  }

  config::metrics count_input() {
    for (size_t i = 0; i < sums_.size(); ++i)
      sums_[i].value /= static_cast<double>(samples_[i]);
    return std::move(sums_);
  }

private:
  config::metrics sums_;
  std::vector<uint64_t> samples_; ///< By the same index.
};

} // namespace

run_metrics::run_metrics(note_sink& to, run_metrics_parts parts)
  : sink_(to), parts_(std::move(parts)),
    statistics_(parts_.settings.cluster.workers,
                config::order_of(parts_.settings)),
    epochs_noted_(parts_.scheduler->ledger().epochs_completed()),
    standstill_(parts_.standstill) {
  // nop
}

recording::run_times run_metrics::load(const proto::Counters& from) {
  return statistics_.load(from);
}

void run_metrics::load(const models::best_score& kept) {
  statistics_.evaluated(kept.step, kept.metrics);
}

// Counts the input first, then the decisions in the order in which they are
// carried out.
void run_metrics::on_event(const event& entry) {
  arrived_ = nullptr;
  std::visit([&](const auto& input) { count_input(entry, input); }, entry.what);
  note_members(entry);
  for (const auto& late : entry.decided.drop)
    drop(entry, late);
  for (size_t i = 0; i < entry.decided.updates.size(); ++i)
    apply(entry, entry.decided.updates[i], entry.rates.at(i));
  for (auto who : entry.decided.cancel)
    record(entry.newest, notes::cancelled{who});
  if (const auto* waits = std::exchange(arrived_, nullptr))
    held_.emplace(waits->id, *waits);
  if (const auto* now = std::get_if<inputs::policy_changed>(&entry.what)) {
    auto next = config::with_policy(parts_.settings, now->policy);
    auto momentum = next.training.momentum;
    auto changes = momentum != parts_.settings.training.momentum;
    parts_.settings = std::move(next);
    record(entry.newest,
           notes::policy_changed{now->policy, changes ? std::optional{momentum}
                                                      : std::nullopt});
  }
}

// Most gradients are decided on as they arrive: those are never held.
push_header run_metrics::take_header(const push_id& id) {
  if (arrived_ != nullptr && arrived_->id == id)
    return *std::exchange(arrived_, nullptr);
  return cores::take_held(held_, id);
}

// -- inputs -------------------------------------------------------------------

void run_metrics::count_input(const event& at, const inputs::started& cause) {
  record(at.newest, notes::started{parts_.run_id, parts_.settings.policy.name});
  if (cause.from)
    record(at.newest, notes::resumed{cause.server, parts_.changes});
}

void run_metrics::count_input(const event& at, const inputs::enlisted& cause) {
  announced_.insert(cause.who);
  absent_.erase(cause.who);
  contributed_.erase(cause.who);
  record(at.newest, notes::joined{cause.who, cause.life});
}

void run_metrics::count_input(const event& at, const inputs::left& cause) {
  announced_.erase(cause.who);
  absent_.insert(cause.who);
  record(at.newest, notes::left{cause.who, cause.life, cause.reason});
}

void run_metrics::count_input(const event& at, const inputs::arrived& cause) {
  statistics_.skipped(cause.header.skipped);
  if (parts_.settings.training.autocast == config::autocast_kind::fp16)
    statistics_.overflowed(overflows_of(cause.header));
  if (cause.refused == errc::none) {
    arrived_ = &cause.header;
    return;
  }
  statistics_.refused(cause.header.id.worker, times_of(cause.header));
  record(at.newest,
         notes::refused{cause.header.id.worker, cause.reason, cause.norm});
}

void run_metrics::count_input(const event&, const inputs::scored& cause) {
  const auto& found = cause.found;
  statistics_.evaluated(found.weights.value, found.metrics);
  last_score_ = found;
  record(found.weights, notes::evaluation{found});
}

void run_metrics::count_input(const event&, const inputs::saved& cause) {
  record(cause.what, notes::checkpoint{cause.name});
}

void run_metrics::count_input(const event& at, const inputs::ending& cause) {
  record(at.newest, notes::stopping{cause.reason, progress(at.newest)});
  held_.clear();
}

void run_metrics::note_members(const event& at) {
  if (!at.decided.members)
    return;
  notes::members out;
  out.now = *at.decided.members;
  const auto& settings = parts_.settings;
  const auto& momentum_of = config::facts_of(settings.policy).momentum;
  if (out.now.paused) {
    out.missing = missing_workers();
    out.absent.assign(absent_.begin(), absent_.end());
  } else if (settings.training.momentum_by_workers.value_or(false) &&
             momentum_of) {
    out.momentum = momentum_of(out.now.count);
  }
  record(at.newest, std::move(out));
}

// -- decisions ----------------------------------------------------------------

void run_metrics::drop(const event& at, const cores::dropped_push& push) {
  auto late = take_header(push.id);
  statistics_.dropped(push.id.worker, late.samples, times_of(late));
  record(at.newest,
         notes::dropped{push.id.worker, push.staleness, late.samples});
}

void run_metrics::apply(const event&, const cores::update_order& step,
                        double rate) {
  notes::update out;
  double loss = 0;
  metric_means means;
  for (const auto& part : step.gradients) {
    auto header = take_header(part.id);
    statistics_.applied(part.id.worker, header.samples, part.staleness,
                        times_of(header));
    loss += header.loss * static_cast<double>(header.samples);
    means.add(header.metrics, header.samples);
    out.samples += header.samples;
    out.gradients.push_back({part.id.worker, part.staleness, header.samples});
    if (parts_.launched && contributed_.insert(part.id.worker).second)
      record(step.makes, notes::first_gradient{part.id.worker});
  }
  out.loss = loss / static_cast<double>(out.samples);
  out.metrics = means.count_input();
  out.epoch = epochs();
  out.lr = rate;
  out.samples_per_second = samples_per_second();
  last_loss_ = out.loss;
  standstill_.step(wall_.elapsed());
  if (wall_.elapsed() >= progress_due_) {
    progress_due_ = wall_.elapsed() + recording::figures_interval;
    out.progress = progress(step.makes);
  }
  record(step.makes, std::move(out));
  note_epochs(step.makes);
}

void run_metrics::note_standstill() {
  auto at = parts_.scheduler->current();
  if (auto lasted = standstill_.due(wall_.elapsed()))
    record(at, notes::standstill{*lasted, progress(at)});
}

void run_metrics::note_left(worker_id who, life_number life,
                            const std::string& reason) {
  record(parts_.scheduler->current(), notes::left{who, life, reason});
}

void run_metrics::note_epochs(version at) {
  for (auto done = parts_.scheduler->ledger().epochs_completed();
       epochs_noted_ < done; ++epochs_noted_)
    record(at, notes::epoch{epochs_noted_, statistics_.take_recent_slowness()});
}

// -- figures ------------------------------------------------------------------

double run_metrics::epochs() const {
  const auto& ledger = parts_.scheduler->ledger();
  auto samples = ledger.samples();
  // No samples are known yet, or the data is endless.
  if (samples == 0 || samples == cores::endless)
    return 0;
  return static_cast<double>(statistics_.samples_applied() +
                             ledger.left_out()) /
         static_cast<double>(samples);
}

double run_metrics::samples_per_second() const {
  return static_cast<double>(statistics_.samples_applied()) /
         std::max(sink_.elapsed(), 1e-9);
}

/// Without which the run does not begin, or pauses.
uint32_t run_metrics::missing_workers() const {
  const auto& cluster = parts_.settings.cluster;
  auto there = static_cast<uint32_t>(parts_.scheduler->members());
  auto begun = there > 0 || parts_.scheduler->is_paused();
  if (!cluster.is_elastic())
    return 0;
  auto needed = !begun && sink_.elapsed() < cluster.join_timeout
                  ? cluster.workers
                  : cluster.fewest_workers();
  return needed -
         std::min(needed,
                  begun ? there : static_cast<uint32_t>(announced_.size()));
}

// Finding the workers that are waited for visits the whole cluster, so it is
// not done for every update.
recording::progress_figures run_metrics::progress(version at) const {
  recording::progress_figures out;
  out.step = at.value;
  out.max_steps = parts_.settings.training.max_steps;
  out.epoch = epochs();
  if (std::isfinite(last_loss_))
    out.loss = last_loss_;
  out.samples_per_second = samples_per_second();
  if (last_score_) {
    const auto& by = statistics_.best_by();
    if (auto value = by ? last_score_->value_of(by->name) : std::nullopt)
      out.score = config::metric{by->name, *value};
    out.top5 = last_score_->value_of(config::native_metrics::accuracy_top5);
  }
  out.workers = static_cast<uint32_t>(parts_.scheduler->members());
  out.announced = static_cast<uint32_t>(announced_.size());
  out.missing = missing_workers();
  if (parts_.scheduler->is_paused())
    out.waiting_for.assign(absent_.begin(), absent_.end());
  else
    out.waiting_for = parts_.scheduler->policy().waiting_for();
  return out;
}

} // namespace troupe
