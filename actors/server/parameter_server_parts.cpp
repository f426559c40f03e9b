// Connects the parts of the parameter server, and describes the run for the log
// and the summary.

#include "actors/runtime/tensor_payload.hpp"
#include "actors/server/parameter_server.hpp"
#include "actors/server/restore.hpp"
#include "config/text/failure.hpp"
#include "config/text/value.hpp"
#include "config/text/version.hpp"
#include "config/values/compression.hpp"
#include "config/values/placement.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

namespace troupe {

namespace {

/// The settings that the user changed for this start.
std::vector<config::change> changes_of(const parameter_server_parts& parts) {
  std::vector<config::change> out;
  std::ranges::copy_if(
    parts.description.changes, std::back_inserter(out),
    [&](const auto& one) { return one.life == parts.life.value; });
  return out;
}

} // namespace

// -- the parts ----------------------------------------------------------------

run_metrics_parts parameter_server_state::metrics_parts() {
  run_metrics_parts out;
  out.settings = parts_.settings;
  out.run_id = parts_.run_id;
  out.changes = changes_of(parts_);
  out.scheduler = &scheduler_;
  out.elapsed = [this] {
    return elapsed();
  };
  out.standstill = parts_.standstill;
  out.tell = [this](const note_ptr& what) {
    tell_recorder(what);
  };
  return out;
}

// The statistics behind the parameters are the lead's.
node_bytes parameter_server_state::bytes_of_nodes() const {
  node_bytes out;
  if (!model_.has_weights())
    return out;
  const auto& cluster = parts_.settings.cluster;
  const auto& layout = *model_.layout();
  auto ranges = cut_parameters(layout, cluster.shards);
  ranges.front().count += layout.count() - layout.parameter_count();
  auto bytes_in = [&layout](const models::element_range& range) {
    return range.count * models::size_of(layout.dtype());
  };
  out.whole = layout.bytes();
  out.lead = parts_.remote_shards > 0 ? bytes_in(ranges.front()) : out.whole;
  if (cluster.topology == config::topology_kind::peers)
    std::ranges::transform(ranges, std::back_inserter(out.beside), bytes_in);
  return out;
}

worker_requests_parts parameter_server_state::requests_parts() {
  worker_requests_parts out;
  out.self = self_;
  out.scheduler = &scheduler_;
  out.model = &model_;
  out.shards = &shards_;
  out.sums = parts_.sums;
  out.notes = &parts_.notes;
  out.decide.push = [this](const push_header& header, const payload& gradient) {
    take(header, gradient);
  };
  out.is_open = [this] {
    return pipeline_.is_open();
  };
  out.decide.pull = [this](const pull_header& header) {
    take(header);
  };
  out.decide.refuse = [this](const push_header& header, errc why,
                             const std::string& reason) {
    refuse(header, why, reason);
  };
  return out;
}

step_pipeline_parts parameter_server_state::pipeline_parts() {
  step_pipeline_parts out;
  out.settings = parts_.settings.training;
  out.model = &model_;
  out.shards = &shards_;
  out.settled = [this](const push_id& id, bool applied) {
    requests_.settle(id, applied);
  };
  out.attempt = [this](const std::function<void()>& what) {
    attempt(what);
    go_on();
  };
  out.made = [this](version before, version what) {
    last_update_ = self_->clock().now();
    auto due = feed_.made(before, what, scheduler_.ledger().epochs_completed());
    if (due && parts_.settings.checkpoint.keep_best == config::best_rule::full)
      checkpoints_.take(); // It may become the best one.
    checkpoints_.made(before, what);
  };
  return out;
}

version_feed_parts parameter_server_state::feed_parts() {
  version_feed_parts out;
  out.self = self_;
  out.model = &model_;
  out.shards = &shards_;
  out.newest = [this] {
    return scheduler_.current();
  };
  out.frequency = parts_.settings.evaluation.eval_freq.steps;
  out.epochs = scheduler_.ledger().epochs_completed();
  out.keeps_shown =
    parts_.settings.checkpoint.keep_best != config::best_rule::nothing &&
    model_.has_weights();
  if (parts_.first && !parts_.first->from.file.empty())
    out.first = to_payload(parts_.first->weights.trained);
  return out;
}

/// With `--keep-best full`: the best one, and those that may become it.
std::vector<uint64_t> parameter_server_state::staying_checkpoints() const {
  std::vector<uint64_t> out;
  if (parts_.settings.checkpoint.keep_best != config::best_rule::full)
    return out;
  for (auto each : feed_.unscored())
    out.push_back(each.value);
  if (best_)
    out.push_back(best_->step);
  if (auto step = metrics_->statistics().best_step())
    out.push_back(*step);
  return out;
}

checkpoint_schedule_parts parameter_server_state::schedule_parts() {
  checkpoint_schedule_parts out;
  out.self = self_;
  out.writer = parts_.writer;
  out.model = &model_;
  out.shards = &shards_;
  out.folder = parts_.checkpoints;
  out.frequency = parts_.settings.checkpoint.checkpoint_freq;
  // Nothing is learned and no epoch ends: there is nothing to resume from.
  out.wanted = model_.has_weights() || parts_.samples != cores::endless;
  out.has_error_feedback =
    config::parse_compression(parts_.settings.cluster.compression)
      .has_error_feedback();
  out.newest = [this] {
    return scheduler_.current();
  };
  out.describe = [this](proto::Manifest& manifest) {
    describe(manifest);
  };
  out.staying = [this] {
    return staying_checkpoints();
  };
  out.each_member = [this](const auto& what) {
    requests_.each_member(what);
  };
  out.collected = [this](const snapshot& what) {
    note_state(what);
  };
  out.saved = [this](version what, const std::string& name) {
    tell(inputs::saved{what, name}, {});
  };
  out.best_saved = [this](const score& what) {
    best_ = {what.weights.value, what.metrics};
  };
  out.failed = [this](const std::string& line) {
    fail_for_others(line);
  };
  out.idle = [this] {
    note_idle();
  };
  return out;
}

run_ending_calls parameter_server_state::ending_calls() {
  return {[this](const std::string& reason) { stop_workers(reason); },
          [this] { finish_work(); },
          [this] {
            checkpoints_.give_up();
            checkpoints_.close();
          },
          [this] {
            close_contexts();
          }};
}

// The recorder acknowledges notes in batches: until then requests may have to
// wait.
void parameter_server_state::tell_recorder(const note_ptr& what) {
  if (!parts_.notes.send())
    return self_->send(parts_.recorder, note_atom_v, what);
  self_->request(parts_.recorder, caf::infinite, note_atom_v, what)
    .then([this] { requests_.proceed(); },
          [](const caf::error&) {
            // It is dead: the supervisor ends the run.
          });
}

// -- the end ------------------------------------------------------------------

// The workers have been told to stop, and close theirs.
void parameter_server_state::close_contexts() {
  constexpr auto pause = std::chrono::milliseconds(5);
  constexpr uint32_t most = 200;
  if (!parts_.modules || parts_.modules->contexts() == 0 ||
      contexts_waited_ == most)
    return write_summary();
  ++contexts_waited_;
  self_->run_delayed(pause, [this] { close_contexts(); });
}

void parameter_server_state::write_summary() {
  feed_.close();
  auto summary = make_summary();
  tell(inputs::ended{summary.status, scheduler_.current(),
                     summary.weights_sha256, summary.state_sha256},
       {});
  summary.status = ending_.status(); // Writing the log may have failed.
  auto last = std::make_shared<note>();
  last->step = scheduler_.current().value;
  last->time = elapsed();
  last->what = notes::finished{std::move(summary), ending_.line()};
  self_
    ->request(parts_.recorder, to_timespan(parts_.finish_timeout),
              finish_atom_v, note_ptr{std::move(last)})
    .then([this] { leave_run(); },
          [this](const caf::error& err) {
            ending_.fail_late(
              err == caf::sec::request_timeout
                ? "the run directory took no lines for " +
                    config::print(parts_.finish_timeout) +
                    " s, and summary.json is not written: the disk takes no "
                    "more; free it and go on with --resume auto"
                : text_of(err));
            leave_run();
          });
}

void parameter_server_state::leave_run() {
  auto status = exit_status::done;
  if (ending_.has_failed() || !ending_.line().empty())
    status = exit_status::failed;
  else if (ending_.status() == "stopped")
    status = exit_status::try_again;
  run_end how{static_cast<uint8_t>(status), ending_.line()};
  if (status != exit_status::done && !next_.all().empty()) {
    how.next = next_.all();
    how.line = next_.line();
  }
  if (auto found = final_score())
    how.accuracy =
      found->value_of(config::native_metrics::accuracy).value_or(how.accuracy);
  self_->send(coordinator_, ended_atom_v, how);
  shards_.stop(how);
  self_->send_exit(parts_.writer, caf::exit_reason::user_shutdown);
  self_->send_exit(parts_.recorder, caf::exit_reason::user_shutdown);
  self_->quit();
}

// -- descriptions of the run --------------------------------------------------

// For the log; of a lease that this worker does not have only the number is
// known.
std::vector<lease>
parameter_server_state::leases_of(const push_header& header) const {
  auto ids = header.leases();
  if (!scheduler_.holds(header.id.worker, ids, header.samples))
    return {{header.from, 0, 0, header.samples}};
  std::vector<lease> out;
  for (auto id : ids)
    if (const auto* found = scheduler_.find(header.id.worker, id))
      out.push_back(*found);
  return out;
}

recording::run_times parameter_server_state::times() const {
  recording::run_times out;
  out.elapsed_seconds = elapsed();
  out.wall_seconds = before_.wall_seconds + wall_.elapsed();
  if (!parts_.began)
    return out;
  out.virtual_seconds = before_.virtual_seconds.value_or(0);
  if (auto start = parts_.began(); start && last_update_ > *start)
    *out.virtual_seconds +=
      std::chrono::duration<double>(last_update_ - *start).count();
  return out;
}

void parameter_server_state::describe(proto::Manifest& out) const {
  fill_manifest(parts_, scheduler_, out);
  metrics_->statistics().save(*out.mutable_counters(), times());
}

std::optional<std::string> parameter_server_state::final_state_sha256() const {
  if (shards_.any())
    return state_sha256_;
  snapshot now;
  model_.save(now);
  return state_sha256(now);
}

std::optional<score> parameter_server_state::final_score() const {
  const auto& found = metrics_->last_score();
  return found && found->weights == scheduler_.current() ? found : std::nullopt;
}

recording::summary parameter_server_state::make_summary() const {
  recording::summary out;
  const auto& settings = parts_.settings;
  metrics_->statistics().fill(out, times());
  out.status = ending_.status();
  out.policy = settings.policy.name;
  out.steps = scheduler_.current().value;
  out.epochs = metrics_->epochs();
  out.workers = settings.cluster.workers;
  out.shards = settings.cluster.shards;
  if (auto found = final_score())
    out.final_metrics = found->metrics;
  if (best_ && best_->step == metrics_->statistics().best_step())
    out.best_weights = models::best_weights_file;
  out.weights_sha256 =
    shards_.any() ? weights_sha256_ : model_.weights_sha256();
  out.state_sha256 = final_state_sha256();
  out.seed = settings.training.seed;
  out.mode = config::print(settings.parallel.mode);
  if (settings.parallel.mode == config::parallel_mode::pipeline)
    out.bubble_share = metrics_->statistics().bubble_share();
  if (parts_.modules)
    out.contexts_left = parts_.modules->contexts();
  out.sharding = config::print(settings.data.sharding);
  out.samples_left_out = scheduler_.ledger().left_out();
  out.transport = transports_;
  if (auto bytes = traffic_->per_step();
      bytes && !config::may_have_modules(settings)) {
    out.bytes_sent_per_step = std::move(bytes->sent);
    out.bytes_received_per_step = std::move(bytes->received);
  }
  out.changes = parts_.description.changes;
  out.troupe_version = config::version();
  return out;
}

} // namespace troupe
