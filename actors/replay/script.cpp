#include "actors/replay/script.hpp"

#include "config/failure.hpp"

#include <google/protobuf/util/message_differencer.h>

#include <utility>

namespace troupe::replay {

namespace {

using google::protobuf::util::DefaultFieldComparator;
using google::protobuf::util::MessageDifferencer;

/// "modified: a.b: 3 -> 1" and its kin, from the first line of a report.
std::string in_words(const std::string& report) {
  auto first = report.substr(0, report.find('\n'));
  auto colon = first.find(": ");
  auto verb = first.substr(0, colon);
  auto rest = first.substr(colon + 2);
  auto split = rest.find(": ");
  auto field = rest.substr(0, split);
  auto value = split == std::string::npos ? "" : rest.substr(split + 2);
  if (verb == "added")
    return field + " is not on the tape, but " + value + " in the replay";
  if (verb == "deleted")
    return field + " is " + value + " on the tape and nothing in the replay";
  auto arrow = value.find(" -> ");
  if (arrow == std::string::npos)
    return first;
  return field + " is " + value.substr(0, arrow) + " on the tape and " +
         value.substr(arrow + 4) + " in the replay";
}

/// What differs first; empty when nothing does.
std::string difference(const google::protobuf::Message& tape,
                       const google::protobuf::Message& found) {
  DefaultFieldComparator numbers;
  numbers.set_treat_nan_as_equal(true);
  MessageDifferencer differ;
  differ.set_field_comparator(&numbers);
  differ.set_message_field_comparison(MessageDifferencer::EQUIVALENT);
  std::string report;
  differ.ReportDifferencesToString(&report);
  return differ.Compare(tape, found) ? "" : in_words(report);
}

/// What may follow the end of the training.
bool is_epilogue(const proto::TapeEvent& event) {
  return event.has_scored() || event.has_audience() || event.has_stopped() ||
         event.has_failed();
}

// Damage is told of when the replay gets there.
std::vector<version> scores_on(const std::filesystem::path& tape) {
  std::vector<version> out;
  try {
    recording::tape_reader reader{tape};
    for (proto::TapeEvent event; reader.next(event);)
      if (event.has_scored())
        out.emplace_back(event.scored().version());
  } catch (const run_error&) {
    // nop
  }
  return out;
}

} // namespace

script::script(const std::filesystem::path& tape)
  : reader_(tape), scored_(scores_on(tape)) {
  current_.set_number(1);
  look_ahead();
}

std::optional<int64_t> script::next_time() const {
  if (!next_)
    return std::nullopt;
  return next_->time_ns();
}

void script::advance() {
  if (!seen_ && !closed_)
    throw run_error(line("the server took no notice of it" +
                         (last_refusal.empty() ? "" : ": " + last_refusal)));
  current_ = std::move(*next_);
  seen_ = false;
  last_refusal.clear();
  look_ahead();
}

void script::look_ahead() {
  next_.emplace();
  if (!reader_.next(*next_))
    next_.reset();
}

void script::check(const proto::TapeEvent& found) {
  if (closed_)
    return;
  if (found.has_ended())
    return check_end(found);
  // A Ctrl-C or a full disk here and now is not of the tape.
  auto ours = found.has_stopped() && !current_.has_stopped();
  if (ours || found.has_failed()) {
    closed_ = true;
    return;
  }
  if (seen_)
    throw run_error(line("the server met more than the tape holds after it"));
  seen_ = true;
  if (stops_early(found)) {
    closed_ = stopped_early_ = true;
    return;
  }
  compare(found);
}

void script::compare(const proto::TapeEvent& found) const {
  auto tape = current_;
  auto ours = found;
  for (auto* event : {&tape, &ours}) {
    event->clear_number();
    event->clear_crc32c();
  }
  // Of two limits that are reached at once, either may be named.
  if (early_stop_allowed_ && !tape.decision().stop().empty() &&
      !ours.decision().stop().empty())
    ours.mutable_decision()->set_stop(tape.decision().stop());
  if (tape.SerializeAsString() == ours.SerializeAsString())
    return;
  if (auto what = difference(tape, ours); !what.empty())
    throw run_error(line(what));
}

/// A limit that is lower than the run's cuts a decision short.
bool script::stops_early(const proto::TapeEvent& found) const {
  if (!early_stop_allowed_ || found.decision().stop().empty() ||
      !current_.decision().stop().empty())
    return false;
  proto::TapeEvent until = current_;
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
  if (auto what = difference(until, ours); !what.empty())
    throw run_error(line(what));
  return true;
}

// Nothing takes as long here as on the tape once the training is over: the end
// may come before reports that still arrived there.
void script::check_end(const proto::TapeEvent& found) {
  while (!current_.has_ended() && next_ &&
         (next_->has_ended() || is_epilogue(*next_))) {
    current_ = std::move(*next_);
    look_ahead();
  }
  closed_ = true;
  if (!current_.has_ended()) {
    if (next_)
      throw run_error(line("the run is over in the replay, but goes on on the "
                           "tape"));
    return; // The server was killed while it ended.
  }
  end_checked_ = true;
  auto ours = found.ended();
  if (current_.ended().state_sha256().empty())
    ours.clear_state_sha256(); // Not known there.
  if (auto what = difference(current_.ended(), ours); !what.empty())
    throw run_error(line("ended." + what));
}

std::string script::line(const std::string& what) const {
  return reader_.path().string() + ": event " +
         std::to_string(current_.number()) + ": " + what;
}

} // namespace troupe::replay
