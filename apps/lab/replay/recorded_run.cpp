#include "apps/lab/replay/recorded_run.hpp"

#include "config/text/failure.hpp"
#include "config/values/metrics.hpp"

#include <google/protobuf/util/message_differencer.h>

#include <utility>

namespace troupe::replay {

namespace {

using google::protobuf::util::DefaultFieldComparator;
using google::protobuf::util::MessageDifferencer;

/// The difference ("modified: a.b: 3 -> 1" or similar) from the first line of a
/// report.
std::string first_difference(const std::string& report) {
  auto first = report.substr(0, report.find('\n'));
  auto colon = first.find(": ");
  auto verb = first.substr(0, colon);
  auto rest = first.substr(colon + 2);
  auto split = rest.find(": ");
  auto field = rest.substr(0, split);
  auto value = split == std::string::npos ? "" : rest.substr(split + 2);
  if (verb == "added")
    return field + " is not in the event log, but " + value + " in the replay";
  if (verb == "deleted")
    return field + " is " + value +
           " in the event log and nothing in the replay";
  auto arrow = value.find(" -> ");
  if (arrow == std::string::npos)
    return first;
  return field + " is " + value.substr(0, arrow) + " in the event log and " +
         value.substr(arrow + 4) + " in the replay";
}

/// The first difference; empty when there is none.
std::string difference(const google::protobuf::Message& event_log,
                       const google::protobuf::Message& found) {
  DefaultFieldComparator numbers;
  numbers.set_treat_nan_as_equal(true);
  MessageDifferencer differ;
  differ.set_field_comparator(&numbers);
  differ.set_message_field_comparison(MessageDifferencer::EQUIVALENT);
  std::string report;
  differ.ReportDifferencesToString(&report);
  return differ.Compare(event_log, found) ? "" : first_difference(report);
}

/// Whether the event may follow the end of the training.
bool is_epilogue(const proto::LogEvent& event) {
  return event.has_scored() || event.has_evaluators() || event.has_stopped() ||
         event.has_failed();
}

/// Gives a score of release 0.1.0 the form of later ones.
void name_metrics(proto::LogScored& record) {
  if (record.metrics_size() > 0)
    return;
  auto put = [&](const char* name, double value) {
    auto& metric = *record.add_metrics();
    metric.set_name(name);
    metric.set_value(value);
  };
  put(config::native_metrics::accuracy, record.accuracy());
  put(config::native_metrics::loss, record.loss());
  if (record.has_accuracy_top5())
    put(config::native_metrics::accuracy_top5, record.accuracy_top5());
  record.clear_accuracy();
  record.clear_loss();
  record.clear_accuracy_top5();
}

// Damage only ends this list: the replay reports it when it gets there.
std::vector<version> scores_on(const std::filesystem::path& event_log) {
  std::vector<version> out;
  try {
    recording::event_log_reader reader{event_log};
    for (proto::LogEvent event; reader.next(event);)
      if (event.has_scored())
        out.emplace_back(event.scored().version());
  } catch (const run_error&) {
    // nop
  }
  return out;
}

} // namespace

recorded_run::recorded_run(const std::filesystem::path& event_log)
  : reader_(event_log), scored_(scores_on(event_log)) {
  current_.set_number(1);
  look_ahead();
}

double recorded_run::norm() const {
  const auto& push = current_.arrived();
  if (!push.has_norm() || !(push.norm() >= 0))
    throw run_error(line("the norm of its gradient is missing, by which "
                         "--outliers refuses"));
  return push.norm();
}

std::optional<int64_t> recorded_run::next_time() const {
  if (!next_)
    return std::nullopt;
  return next_->time_ns();
}

void recorded_run::advance() {
  if (!seen_ && !closed_)
    throw run_error(line("the replayed server did not react to it" +
                         (last_refusal.empty() ? "" : ": " + last_refusal)));
  current_ = std::move(*next_);
  seen_ = false;
  last_refusal.clear();
  look_ahead();
}

void recorded_run::look_ahead() {
  next_.emplace();
  if (!reader_.next(*next_))
    next_.reset();
  else if (next_->has_scored())
    name_metrics(*next_->mutable_scored());
}

void recorded_run::check(const proto::LogEvent& found) {
  if (closed_)
    return;
  if (found.has_ended())
    return check_end(found);
  // A Ctrl-C or a full disk during the replay is not in the event log.
  auto ours = found.has_stopped() && !current_.has_stopped();
  if (ours || found.has_failed()) {
    closed_ = true;
    return;
  }
  if (seen_)
    throw run_error(
      line("the replayed server met an event after it that the event log "
           "does not have"));
  seen_ = true;
  if (stops_early(found)) {
    closed_ = stopped_early_ = true;
    return;
  }
  compare(found);
}

void recorded_run::compare(const proto::LogEvent& found) const {
  auto event_log = current_;
  auto ours = found;
  for (auto* event : {&event_log, &ours}) {
    event->clear_number();
    event->clear_crc32c();
  }
  // When two limits are reached at once, either may be named.
  if (early_stop_allowed_ && !event_log.decision().stop().empty() &&
      !ours.decision().stop().empty())
    ours.mutable_decision()->set_stop(event_log.decision().stop());
  if (event_log.SerializeAsString() == ours.SerializeAsString())
    return;
  if (auto value = difference(event_log, ours); !value.empty())
    throw run_error(line(value));
}

/// Whether a limit that is lower than the run's has cut this decision short.
bool recorded_run::stops_early(const proto::LogEvent& found) const {
  if (!early_stop_allowed_ || found.decision().stop().empty() ||
      !current_.decision().stop().empty())
    return false;
  proto::LogEvent until = current_;
  auto& updates = *until.mutable_decision()->mutable_updates();
  if (updates.size() > found.decision().updates_size())
    updates.DeleteSubrange(found.decision().updates_size(),
                           updates.size() - found.decision().updates_size());
  until.mutable_decision()->clear_releases();
  until.mutable_decision()->clear_cancels();
  until.mutable_decision()->set_stop(found.decision().stop());
  until.clear_number();
  until.clear_crc32c();
  auto ours = found;
  ours.clear_number();
  if (auto value = difference(until, ours); !value.empty())
    throw run_error(line(value));
  return true;
}

// After the training the replay is faster than the recorded run: its end may
// come before reports that still reached the recorded server.
void recorded_run::check_end(const proto::LogEvent& found) {
  while (!current_.has_ended() && next_ &&
         (next_->has_ended() || is_epilogue(*next_))) {
    current_ = std::move(*next_);
    if (current_.has_failed())
      failure_ = current_.failed().line();
    look_ahead();
  }
  closed_ = true;
  if (failure_) // A shard or a disk failed; a replay has neither.
    return;
  if (!current_.has_ended()) {
    if (next_)
      throw run_error(line("the run is over in the replay, but goes on in the "
                           "event log"));
    return; // The server was killed while ending.
  }
  end_checked_ = true;
  auto ours = found.ended();
  auto theirs = current_.ended();
  if (theirs.state_sha256().empty() || other_weights_allowed_) {
    ours.clear_state_sha256(); // Or it is not in the event log.
    theirs.clear_state_sha256();
  }
  if (theirs.weights_sha256().empty() || other_weights_allowed_) {
    ours.clear_weights_sha256(); // Or its shards were not all there.
    theirs.clear_weights_sha256();
  }
  if (auto value = difference(theirs, ours); !value.empty())
    throw run_error(line("ended." + value));
}

std::string recorded_run::line(const std::string& text) const {
  return reader_.path().string() + ": event " +
         std::to_string(current_.number()) + ": " + text;
}

} // namespace troupe::replay
