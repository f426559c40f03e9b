#include "actors/recording/recorder.hpp"

#include "actors/recording/console.hpp"
#include "actors/recording/log_lines.hpp"
#include "actors/recording/metrics_tail.hpp"
#include "config/sources/resolve.hpp"
#include "config/text/one_line.hpp"
#include "config/text/text.hpp"
#include "config/text/value.hpp"

#include <cmath>
#include <cstdio>
#include <exception>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

namespace {

using recording::line_file;

/// The first joins up to this number of workers are reported one by one.
constexpr uint32_t most_said = 64;

/// Of the workers that a run waits for.
constexpr size_t most_named = 4;

/// The most bytes that are buffered, and for how many seconds.
constexpr size_t most_gathered = 1 << 16;
constexpr double flush_interval = 1;

/// Seconds between two lines of progress that are not redrawn.
constexpr double progress_interval = 5;

/// Seconds between two looks at the claim to the run. So a process that was
/// stopped for so long that another one leads the run looks before it writes.
constexpr double claim_interval = 0.05;

} // namespace

recorder_state::recorder_state(pointer self, recorder_parts parts)
  : self_(self), parts_(std::move(parts)),
    last_step_before_(parts_.resume_step
                        ? recording::last_step(parts_.folder / "metrics.jsonl")
                        : std::nullopt),
    metrics_(parts_.folder / "metrics.jsonl",
             parts_.resume_step ? line_file::mode::resume
                                : line_file::mode::fresh,
             parts_.gathers ? most_gathered : 0),
    tensorboard_(parts_.folder, parts_.started_at, parts_.resume_step,
                 parts_.gathers ? most_gathered : 0),
    progress_(parts_.terminal_width, progress_interval, [](auto line) {
      return recording::log_lines::of_process().make(line);
    }) {
  // nop
}

recorder_actor::behavior_type recorder_state::make_behavior() {
  return {
    [this](note_atom, const note_ptr& entry) { return write(*entry); },
    [this](finish_atom, const note_ptr& entry) { return finish(*entry); },
  };
}

// The parameter server does not wait for notes, so it is told of the first
// write that failed.
caf::result<void> recorder_state::write(const note& entry) try {
  if (!trouble_) {
    require_claim();
    std::visit([&](const auto& kind) { put(entry, kind); }, entry.what);
    flush_if_due();
  }
  return caf::unit;
} catch (const std::exception& err) {
  trouble_ = one_line(err);
  self_->send(caf::actor_cast<lead_actor>(self_->current_sender()),
              refuse_atom_v, *trouble_);
  return caf::unit;
}

caf::result<void> recorder_state::finish(const note& entry) try {
  claimed_ = -claim_interval;
  require_claim();
  std::visit([&](const auto& kind) { put(entry, kind); }, entry.what);
  metrics_.flush();
  tensorboard_.flush();
  self_->quit();
  return caf::unit;
} catch (const std::exception& err) {
  self_->quit();
  return caf::make_error(errc::disk, one_line(err));
}

// -- training -----------------------------------------------------------------

void recorder_state::put(const note& at, const notes::update& entry) {
  metrics_.update({at.step, at.time, entry.loss, entry.epoch, entry.lr,
                   entry.gradients, entry.metrics});
  double staleness = 0;
  for (const auto& part : entry.gradients)
    staleness += static_cast<double>(part.staleness);
  tensorboard_.update(at.step, at.time,
                      {entry.loss, entry.samples_per_second,
                       staleness / static_cast<double>(entry.gradients.size()),
                       entry.lr, entry.metrics});
  if (!entry.progress || parts_.without_progress)
    return;
  auto text = progress_.show(*entry.progress, wall_.elapsed());
  if (text && !parts_.silent)
    recording::console::standard_output().show(*text);
}

void recorder_state::put(const note& at, const notes::evaluation& entry) {
  const auto& found = entry.found;
  auto record = record_of(found, at.time);
  metrics_.evaluation(record);
  tensorboard_.evaluation(found.weights.value, at.time, found.metrics);
  say(recording::score_line(record));
}

void recorder_state::put(const note& at, const notes::epoch& entry) {
  metrics_.epoch(at.step, at.time, entry.number, entry.slowness);
}

void recorder_state::put(const note& at, const notes::dropped& entry) {
  metrics_.dropped(at.step, at.time, entry.who, entry.staleness, entry.samples);
}

void recorder_state::put(const note& at, const notes::cancelled& entry) {
  metrics_.cancelled(at.step, at.time, entry.who);
}

void recorder_state::put(const note& at, const notes::refused& entry) {
  metrics_.refused(at.step, at.time, entry.who, entry.reason, entry.norm);
  if (wall_.elapsed() - refusal_said_ < 1) // All are in the log.
    return;
  refusal_said_ = wall_.elapsed();
  say("refused      worker " + to_string(entry.who) + ": " + entry.reason);
}

// -- the cluster
// -----------------------------------------------------------------

void recorder_state::put(const note& at, const notes::joined& entry) {
  metrics_.joined(at.step, at.time, entry.who, entry.life);
  if (parts_.workers > most_said && entry.life.value == 1)
    return; // All are in the log.
  std::vector<std::string> facts;
  if (entry.life.value > 1)
    facts.push_back("life " + to_string(entry.life));
  if (auto peer = parts_.peers ? parts_.peers->of(entry.who) : "";
      !peer.empty())
    facts.push_back(peer);
  say("joined       worker " + to_string(entry.who) +
      (facts.empty() ? "" : " (" + config::join(facts, ", ") + ")"));
}

void recorder_state::put(const note& at, const notes::left& entry) {
  auto reason = recording::read_reason(entry.reason);
  metrics_.left(at.step, at.time, entry.who, entry.life, reason.what);
  say("left         worker " + to_string(entry.who) + ": " + reason.what);
  if (stopping_ || !recording::is_failure(reason.what))
    return;
  auto process =
    parts_.peers ? parts_.peers->process_of(entry.who) : std::nullopt;
  recording::failed_process one{"worker", entry.who.value};
  if (process) {
    one.host = process->host;
    one.pid = process->pid;
  }
  one.time = at.time;
  one.what = std::move(reason.what);
  one.lines = std::move(reason.lines);
  note_failure(std::move(one));
}

void recorder_state::put(const note&, const notes::first_gradient& entry) {
  say(std::string{config::first_gradient} + to_string(entry.who));
}

void recorder_state::put(const note& at, const notes::members& entry) {
  const auto& [count, paused] = entry.now;
  metrics_.members(at.step, at.time, count, paused, entry.momentum);
  auto was_paused = std::exchange(paused_, paused);
  auto there = config::count(count, "worker");
  if (was_paused && !paused)
    return say("continued    with " + there);
  if (!paused)
    return;
  std::vector<std::string> names;
  for (auto who : entry.absent)
    if (names.size() < most_named)
      names.push_back(name_of(who));
  if (names.size() < entry.absent.size())
    names.push_back(std::to_string(entry.absent.size() - names.size()) +
                    " more");
  say("paused       " + there + ", waits for " + std::to_string(entry.missing) +
      " more: " + config::join(names, ", "));
}

/// "worker 1 (host, pid 4711)"
std::string recorder_state::name_of(worker_id who) const {
  auto peer = parts_.peers ? parts_.peers->of(who) : "";
  return "worker " + to_string(who) + (peer.empty() ? "" : " (" + peer + ")");
}

// -- the run ------------------------------------------------------------------

void recorder_state::put(const note& at, const notes::policy_changed& entry) {
  metrics_.policy_changed(at.step, at.time, entry.policy, entry.momentum);
  say("policy       " + entry.policy + " from step " + std::to_string(at.step) +
      " on" +
      (entry.momentum ? ", momentum " + config::print(*entry.momentum) : ""));
}

void recorder_state::put(const note& at, const notes::started& entry) {
  if (parts_.resume_step)
    return;
  metrics_.started({at.step, at.time, entry.run_id, parts_.network,
                    parts_.dataset, entry.policy, parts_.workers, parts_.shards,
                    parts_.seed});
}

void recorder_state::put(const note& at, const notes::resumed& entry) {
  std::optional<uint64_t> lost;
  if (last_step_before_)
    lost = *last_step_before_ - std::min(*last_step_before_, at.step);
  metrics_.resumed(at.step, at.time, entry.server, lost, entry.changes);
  say("resumed      from step " + std::to_string(at.step) +
      (lost ? "; " + std::to_string(*lost) +
                " updates made after it were rolled back"
            : ""));
}

void recorder_state::put(const note& at, const notes::checkpoint& entry) {
  metrics_.checkpoint(at.step, at.time, entry.name);
  say("checkpoint   " + entry.name);
}

// For users who look on only: in the files the times of the lines tell it.
void recorder_state::put(const note&, const notes::standstill& entry) {
  say(
    recording::standstill_line(entry.seconds, entry.progress, parts_.workers));
}

void recorder_state::put(const note& at, const notes::warning& entry) {
  metrics_.warning(at.step, at.time, entry.text);
  say("warning      " + entry.text);
}

void recorder_state::put(const note& at, const notes::stopping& entry) {
  metrics_.stopping(at.step, at.time, entry.reason);
  stopping_ = true;
  show(progress_.show_last(entry.progress));
  say("stopping     " + entry.reason);
}

void recorder_state::put(const note&, const notes::early_summary& entry) {
  recording::write_summary(parts_.folder / "summary.json", entry.summary);
}

void recorder_state::put(const note& at, const notes::finished& entry) {
  auto summary = entry.summary;
  if (summary.status == "failed") {
    recording::failed_process own{"ps", 0};
    own.time = at.time;
    own.what = entry.line;
    if (parts_.names_processes) {
      auto here = recording::origin_of_process("ps", 0);
      own.host = here.host;
      own.pid = here.pid;
      own.lines = recording::log_lines::of_process().last();
    }
    note_failure(std::move(own));
  }
  summary.first_failure = first_failure(at.time);
  metrics_.finished(at.step, at.time, summary.status);
  recording::write_summary(parts_.folder / "summary.json", summary);
  std::string found;
  if (const auto& by = summary.best_by; by && summary.final_metrics)
    if (auto value = config::value_of(*summary.final_metrics, by->name))
      found = ", " + recording::metric_text({by->name, *value});
  say(summary.status + std::string(13 - summary.status.size(), ' ') +
      std::to_string(summary.steps) + " steps" + found + "; " +
      (parts_.folder / "summary.json").string());
}

void recorder_state::note_failure(recording::failed_process one) {
  if (!failed_)
    failed_ = std::move(one);
}

/// @param now s of the run: a launch has other clocks.
std::optional<recording::failed_process>
recorder_state::first_failure(double now) const {
  auto launched = recording::read_failures(parts_.failures);
  for (auto& one : launched)
    one.time += now - recording::time_of_day();
  return recording::first_failure(failed_, launched);
}

void recorder_state::require_claim() {
  if (!parts_.claim || wall_.elapsed() - claimed_ < claim_interval)
    return;
  claimed_ = wall_.elapsed();
  parts_.claim->require();
}

void recorder_state::flush_if_due() {
  if (!parts_.gathers || wall_.elapsed() - flushed_ < flush_interval)
    return;
  flushed_ = wall_.elapsed();
  metrics_.flush();
  tensorboard_.flush();
}

void recorder_state::say(const std::string& line) {
  show(progress_.clear() + recording::log_lines::of_process().make(line));
}

void recorder_state::show(const std::string& text) {
  if (!parts_.silent)
    recording::console::standard_output().write(text);
}

} // namespace troupe
