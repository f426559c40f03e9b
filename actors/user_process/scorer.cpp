#include "actors/user_process/scorer.hpp"

#include "actors/user_process/named_metrics.hpp"
#include "config/text/failure.hpp"

#include <utility>

namespace troupe {

using external::body_reader;
using external::body_writer;
using external::process_frame_kind;

external_scorer_state::external_scorer_state(pointer self,
                                             user_process_parts parts)
  : user_process_state(self, std::move(parts)), self_(self) {
  // nop
}

external_scorer_actor::behavior_type external_scorer_state::make_behavior() {
  blocks_.welcome(process_.settings.training, process_.frozen);
  return {
    [this](evaluate_atom, version number, const payload& weights,
           bool of_average) { return begin(number, weights, of_average); },
    [this](ended_atom, version number, const payload& weights, bool) {
      blocks_.give_last(number, weights, 0);
    },
    [this](frame_atom, uint32_t kind, uint64_t number,
           const std::string& body) {
      handle_frame(static_cast<process_frame_kind>(kind), number, body);
    },
    [this](detach_atom, const caf::error& why) { lose(why); },
    [this](tick_atom) { check_time(); },
  };
}

caf::result<score> external_scorer_state::begin(version number,
                                                const payload& weights,
                                                bool of_average) {
  if (lost_)
    return lost_;
  auto asks = self_->make_response_promise<score>();
  waiting_.push_back({number, weights, of_average, asks, run_clock{self_}});
  if (!job_)
    begin_next();
  return asks;
}

// Requests may wait: an evaluator that has lost its server and found it again
// asks while the process is still at work for the server's life before.
void external_scorer_state::begin_next() {
  if (waiting_.empty())
    return;
  job_ = std::move(waiting_.front());
  waiting_.pop_front();
  job_->weights = blocks_.usable(job_->weights);
  job_->clock = run_clock{self_};
  blocks_.forget_unused();
  auto where = blocks_.place_of(job_->weights);
  process_.line->send(process_frame_kind::score, job_->what.value,
                      body_writer{}
                        .put(where)
                        .put(static_cast<uint8_t>(job_->of_average))
                        .take_bytes());
}

void external_scorer_state::handle_frame(process_frame_kind kind,
                                         uint64_t number,
                                         const std::string& body) {
  if (kind == process_frame_kind::failed)
    lose_failed(body);
  else if (kind != process_frame_kind::scored)
    refuse_kind(kind);
  else if (!job_ || job_->what.value != number)
    lose_over("sent a score that it was not asked for");
  else
    take_score(body);
}

// Wrong metrics are a fault of the user's program, so the line says what to do.
void external_scorer_state::take_score(const std::string& body) try {
  body_reader in{std::as_bytes(std::span{body})};
  score out;
  out.weights = job_->what;
  out.samples = in.number<uint64_t>();
  out.metrics = external::read_metrics(in, who());
  if (!in.complete())
    throw run_error(who() + " sent a score of another form");
  if (out.metrics.empty())
    throw run_error(who() + " sent a score without a metric");
  config::require_target(process_.settings.training, out.metrics);
  out.seconds = job_->clock.elapsed(self_);
  finish(std::move(out));
  begin_next();
} catch (const failure& why) {
  lose(caf::make_error(errc::bad_data, why.what()));
}

// The reader's ticks call this.
void external_scorer_state::check_time() {
  if (job_ && is_late(job_->clock))
    lose_late("sent no score");
}

void external_scorer_state::finish(caf::expected<score> found) {
  auto done = *std::exchange(job_, std::nullopt);
  done.weights = {};
  done.asks.deliver(std::move(found));
}

void external_scorer_state::fail_requests() {
  if (job_)
    finish(lost_);
  for (auto& one : std::exchange(waiting_, {}))
    one.asks.deliver(lost_);
}

external_scorer_actor make_external_scorer(caf::actor_system& system,
                                           user_process_parts parts) {
  return spawn_for_process<external_scorer_actor, external_scorer_state>(
    system, std::move(parts));
}

} // namespace troupe
