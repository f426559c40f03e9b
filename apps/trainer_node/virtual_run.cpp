#include "apps/trainer_node/virtual_run.hpp"

#include "actors/clock/virtual_time.hpp"
#include "actors/clock/wall_clock.hpp"
#include "apps/trainer_node/node.hpp"
#include "config/failure.hpp"

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>

#include <optional>

namespace troupe::app {

namespace {

/// Messages handled at a time, and s that pass between two looks at
/// `interrupted`, which costs more than a message.
constexpr size_t at_a_time = 4096;
constexpr double look_interval = 0.02;

/// Handles what can be handled now, then what the next timer brings. False when
/// nothing is left to come.
bool go_on(virtual_time& time) {
  return time.settle(at_a_time) == at_a_time || time.jump();
}

} // namespace

run_end run_in_virtual_time(const config::resolved& config,
                            const virtual_run_options& options) {
  init_messages();
  caf::actor_system_config settings;
  virtual_time::choose(settings);
  caf::actor_system system{settings};
  system.await_actors_before_shutdown(false);
  std::optional<run_end> how;
  auto node = start_server(system, config,
                           {[&](const run_end& end) { how = end; },
                            options.silent, options.watch, options.replay});
  virtual_time time{system};
  wall_clock wall;
  double looked = 0;
  while (!how) {
    if (options.interrupted && wall.elapsed() - looked > look_interval) {
      looked = wall.elapsed();
      if (options.interrupted())
        node.stop();
    }
    if (!go_on(time) && !how)
      throw run_error("the simulation stands still: every actor waits for "
                      "another; this is a bug of Troupe");
  }
  node = {};
  while (system.registry().running() > 0 && go_on(time))
    ;
  return *how;
}

} // namespace troupe::app
