#include "actors/policies/sync.hpp"

#include "actors/policies/rows.hpp"
#include "config/text/text.hpp"

namespace troupe::policies {

sync::sync(const policy_spec&) {
  // nop
}

void sync::close_if_due(decision& out) {
  if (round_.computing() == 0)
    round_.close(out);
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
