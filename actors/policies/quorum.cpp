#include "actors/policies/quorum.hpp"

#include "actors/policies/rows.hpp"
#include "config/text/text.hpp"
#include "config/text/value.hpp"

#include <algorithm>
#include <limits>

namespace troupe::policies {

namespace {

uint64_t quorum_of(uint64_t quorum, uint32_t workers) {
  return quorum == 0 ? workers / 2 + 1 : std::min<uint64_t>(quorum, workers);
}

} // namespace

quorum::quorum(const policy_spec& spec)
  : step_round_policy(late_gradients::count), workers_(spec.workers),
    quorum_(spec.parameters.whole("quorum")),
    window_(spec.parameters.number("window")) {
  // nop
}

void quorum::reset(version v) {
  step_round_policy::reset(v);
  begun_.reset();
}

void quorum::close_if_due(decision& out) {
  auto enough = round_.gradients() >= quorum_of(quorum_, workers_);
  if (round_.computing() == 0 || (enough && window_ == 0))
    return round_.close(out);
  if (!enough || begun_ == current())
    return;
  begun_ = current();
  out.window = window_;
}

decision quorum::on_window_over(version v) {
  decision out;
  if (v == current() && begun_ == v)
    round_.close(out);
  return out;
}

std::string quorum::state() const {
  state_writer out{"quorum"};
  out.number("n", workers_);
  out.number("k", quorum_);
  out.number("begun", begun_ == current());
  round_.write(out);
  return out.str();
}

// -- registration -------------------------------------------------------------

namespace {

using config::arguments;

uint64_t least_gradients(const arguments& of, uint32_t workers) {
  return quorum_of(of.whole("quorum"), workers);
}

} // namespace

row quorum_row() {
  constexpr auto most = std::numeric_limits<uint32_t>::max();
  return {
    {
      .schema = {"quorum",
                 {{"quorum", "K",
                   "gradients that a step waits for; 0: of more than half of "
                   "the workers",
                   config::whole(0, most), "0"},
                  {"window", "S", "seconds that it then waits for the others",
                   config::number_from(0, 1e9), "1"}}},
      .sentence =
        [](const arguments& of, uint32_t workers) {
          auto window = of.number("window");
          return "a step waits for " +
                 config::count(least_gradients(of, workers), "gradient") +
                 " of " + std::to_string(workers) +
                 (window > 0 ? ", and " + config::print(window) +
                                 " s longer for the others"
                             : "") +
                 "; late ones count in the next";
        },
      .gradients_per_step = least_gradients,
      .versions_behind =
        [](const arguments& of, uint32_t workers) {
          return workers - least_gradients(of, workers);
        },
      .object = [](const arguments& of,
                   uint32_t workers) -> std::optional<config::objection> {
        if (of.whole("quorum") <= workers)
          return std::nullopt;
        return config::objection{"quorum",
                                 "must be at most the number of workers, " +
                                   std::to_string(workers)};
      },
    },
    [](const policy_spec& spec) {
      return std::make_unique<quorum>(spec);
    }};
}

} // namespace troupe::policies
