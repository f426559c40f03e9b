#include "actors/server/version_feed.hpp"

#include "actors/runtime/run_is_over.hpp"
#include "actors/runtime/tensor_payload.hpp"

#include <utility>

namespace troupe {

version_feed::version_feed(lead& of, version_feed_parts parts)
  : lead_(of), parts_(std::move(parts)),
    board_(parts_.frequency, parts_.epochs) {
  // nop
}

auto version_feed::watch(const watch_request& request) -> watch_result {
  if (closed_)
    return run_is_over();
  auto promise = parts_.self->make_response_promise<watch_header, payload>();
  if (request.average) {
    show_average(request.after, promise);
    return promise;
  }
  waiting_.push_back({promise, request.after});
  lead_.attempt([this] {
    show_first();
    show_due();
  });
  return promise;
}

void version_feed::set_evaluators(uint32_t evaluators) {
  evaluators_ = evaluators;
  while (shown_.size() > evaluators_ + 1)
    shown_.erase(shown_.begin());
}

/// Shows version 0 to the first evaluator that comes before a later version is
/// due.
void version_feed::show_first() {
  if (!parts_.first || waiting_.back().after > version{0})
    return;
  auto weights = std::exchange(parts_.first, {});
  remember(version{0}, {weights, {}});
  waiting_.back().asks.deliver(watch_header{version{0}, false}, weights);
  waiting_.pop_back();
}

bool version_feed::made(version before, version number, uint64_t epochs) {
  if (!board_.updated(before, number, epochs))
    return false;
  parts_.first = {};
  show_due();
  return true;
}

void version_feed::finish() {
  finishing_ = true;
  parts_.first = {};
  board_.finish(lead_.newest());
  show_due();
}

void version_feed::show_average(version of, watch_promise& asks) {
  auto found = shown_.find(of);
  if (found == shown_.end() || !found->second.average)
    return asks.deliver(caf::make_error(
      errc::unknown_member,
      "the average at version " + to_string(of) + " is not kept any more"));
  asks.deliver(watch_header{of, board_.is_last(of), true},
               found->second.average);
}

// The version that is due is available only while it is the newest; afterwards
// `due_` keeps it alive.
void version_feed::show_due() {
  if (board_.next(due_version_) == lead_.newest()) {
    if (parts_.shards->any())
      return fetch_due();
    due_version_ = lead_.newest();
    due_ = {parts_.model->newest(), {}};
    if (parts_.model->averages() && is_wanted())
      due_.average = to_payload(parts_.model->make_whole_average());
  }
  serve();
}

// Fetches versions one at a time, except for the last.
void version_feed::fetch_due() {
  auto due = lead_.newest();
  if (!is_wanted() || !parts_.shards->complete() || fetching_ == due ||
      (fetching_ && !finishing_))
    return;
  fetching_ = due;
  auto whole = parts_.model->make_whole();
  shard_fetch parts;
  parts.width = static_cast<uint64_t>(whole.element_size());
  parts.weights = whole;
  if (parts_.model->averages()) {
    parts.average = parts_.model->make_whole_average();
    parts.places.average = true;
  }
  auto average = parts.average;
  parts_.shards->fetch(std::move(parts), [this, due, whole, average] {
    if (fetching_ == due)
      fetching_.reset();
    if (due > due_version_) {
      due_version_ = due;
      due_ = {to_payload(whole),
              average.defined() ? to_payload(average) : payload{}};
    }
    serve();
  });
}

void version_feed::serve() {
  std::erase_if(waiting_, [this](waiting_evaluator& who) {
    if (!(due_version_ > who.after))
      return false;
    who.asks.deliver(watch_header{due_version_, board_.is_last(due_version_),
                                  bool{due_.average}},
                     due_.weights);
    remember(due_version_, due_);
    return true;
  });
}

// Keeps a few versions only: an evaluator that left never scores what it was
// given, and a replay gets scores that nobody asked for.
void version_feed::remember(version shown, const shown_version& current) {
  if (!parts_.keeps_shown && !current.average)
    return;
  shown_[shown] = current;
  while (shown_.size() > evaluators_ + 1)
    shown_.erase(shown_.begin());
}

auto version_feed::take_shown(version number) -> shown_version {
  auto found = shown_.extract(number);
  return found ? std::move(found.mapped()) : shown_version{};
}

std::vector<version> version_feed::unscored() const {
  std::vector<version> out{due_version_};
  for (const auto& [what, weights] : shown_)
    out.push_back(what);
  return out;
}

void version_feed::close() {
  closed_ = true;
  for (auto& who : std::exchange(waiting_, {}))
    who.asks.deliver(run_is_over());
}

} // namespace troupe
