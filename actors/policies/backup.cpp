#include "actors/policies/backup.hpp"

#include "actors/policies/rows.hpp"
#include "config/text/text.hpp"

#include <algorithm>
#include <limits>
#include <optional>

namespace troupe::policies {

namespace {

/// A worker whose gradients were dropped so often in a row begins again with
/// the next step.
constexpr uint32_t patience = 3;

} // namespace

backup::backup(const policy_spec& spec)
  : workers_(spec.workers),
    backups_(static_cast<uint32_t>(spec.parameters.whole("backup-workers"))),
    cancels_(spec.parameters.text("late") == "cancel"),
    brings_in_phase_(spec.rules >= rules_in_phase) {
  // nop
}

void backup::close_if_due(decision& out) {
  // min(N-b, live) with live = gradients + computing, written without the min.
  auto backups = std::min(backups_, workers_ - 1);
  auto enough = round_.gradients() >= workers_ - backups;
  if (!enough && round_.computing() > 0)
    return;
  auto closing = round_.current();
  round_.close(out);
  if (enough && cancels_)
    out.cancel = round_.computing_on(closing);
  else if (enough && brings_in_phase_)
    out.cancel = round_.late_in_a_row(closing, patience);
}

std::string backup::state() const {
  state_writer out{"backup"};
  out.number("n", workers_);
  out.number("b", backups_);
  out.number("late", cancels_);
  round_.write(out);
  return out.str();
}

// -- registration -------------------------------------------------------------

namespace {

using config::arguments;

uint64_t needed(const arguments& of, uint32_t workers) {
  return workers - of.whole("backup-workers");
}

std::optional<config::objection> object(const arguments& of, uint32_t workers) {
  if (of.whole("backup-workers") < workers)
    return std::nullopt;
  return config::objection{"backup-workers",
                           "must be less than the number of workers, " +
                             std::to_string(workers)};
}

std::string sentence(const arguments& of, uint32_t workers) {
  return "a step waits for the first " +
         config::count(needed(of, workers), "gradient") + " of " +
         std::to_string(workers) + "; late ones are " +
         (of.text("late") == "drop" ? "dropped" : "cancelled");
}

} // namespace

row backup_row() {
  constexpr auto most = std::numeric_limits<uint32_t>::max();
  return {
    {
      .schema = {"backup",
                 {{"backup-workers", "B",
                   "gradients that a step does not wait for",
                   config::whole(0, most), "1"},
                  {"late", "drop|cancel",
                   "what becomes of gradients that come too late",
                   config::one_of_words({"drop", "cancel"}), "drop"}}},
      .sentence = sentence,
      .gradients_per_step = needed,
      .versions_behind = [](const arguments& of,
                            uint32_t) { return of.whole("backup-workers"); },
      .object = object,
      .staleness = [](const arguments&, uint64_t) { return 0; },
      .compared_as = "backup:1",
    },
    [](const policy_spec& spec) {
      return std::make_unique<backup>(spec);
    }};
}

} // namespace troupe::policies
