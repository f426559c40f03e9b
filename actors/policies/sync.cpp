#include "actors/policies/sync.hpp"

#include "actors/policies/mutation.hpp"
#include "actors/policies/rows.hpp"
#include "config/text/text.hpp"

namespace troupe::policies {

sync::sync(const policy_spec&) {
  // nop
}

void sync::reset(version v) {
  round_.reset(v);
}

version sync::current() const {
  return round_.current();
}

decision sync::on_join(std::span<const worker_id> who) {
  decision out;
  round_.join(who);
  close_if_due(out);
  return out;
}

decision sync::on_leave(worker_id who) {
  decision out;
  round_.leave(who);
  if (!mutation(bug::barrier_stays))
    close_if_due(out);
  return out;
}

decision sync::on_arrival(const arrival& what) {
  decision out;
  round_.arrive(what, out);
  close_if_due(out);
  return out;
}

decision sync::on_pull(worker_id who) {
  decision out;
  round_.pull(who, out);
  return out;
}

void sync::close_if_due(decision& out) {
  if (round_.computing() == 0)
    round_.close(out);
}

std::vector<worker_id> sync::waiting_for() const {
  return round_.waiting_for();
}

std::string sync::state() const {
  state_writer out{"sync"};
  round_.write(out);
  return out.str();
}

// -- registration -------------------------------------------------------------

row sync_row() {
  return {
    {
      .schema = {"sync", {}},
      .other_names = {"bsp"}, // bulk-synchronous parallel
      .sentence =
        [](const config::arguments&, uint32_t workers) {
          return "a step waits for " + config::count(workers, "worker");
        },
      .gradients_per_step = [](const config::arguments&,
                               uint32_t workers) { return workers; },
      .versions_behind = [](const config::arguments&, uint32_t) { return 0; },
      .summable = true,
      .staleness = [](const config::arguments&, uint64_t) { return 0; },
      .compared_as = "sync",
    },
    [](const policy_spec& spec) {
      return std::make_unique<sync>(spec);
    }};
}

} // namespace troupe::policies
