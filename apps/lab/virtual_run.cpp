#include "apps/lab/virtual_run.hpp"

#include "actors/recording/log_lines.hpp"
#include "actors/runtime/virtual_time.hpp"
#include "actors/runtime/wall_clock.hpp"
#include "apps/lab/virtual_cluster.hpp"
#include "config/report/report.hpp"
#include "config/text/failure.hpp"

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>

#include <chrono>
#include <optional>
#include <utility>

namespace troupe::app {

namespace {

/// Messages handled at a time, and seconds between two checks of `interrupted`,
/// which costs more than a message.
constexpr size_t at_a_time = 4096;
constexpr double look_interval = 0.02;

/// The same with faults, where invariants are checked, too.
constexpr size_t with_faults = 64;

/// While it lives, lines have the time of the system.
class lines_in_virtual_time {
public:
  explicit lines_in_virtual_time(caf::actor_system& system)
    : before_(recording::log_lines::of_process().take_time_from([&system] {
        return std::chrono::duration<double>{
          system.clock().now().time_since_epoch()}
          .count();
      })) {
    // nop
  }

  ~lines_in_virtual_time() {
    recording::log_lines::of_process().take_time_from(std::move(before_));
  }

  lines_in_virtual_time(const lines_in_virtual_time&) = delete;
  lines_in_virtual_time& operator=(const lines_in_virtual_time&) = delete;

private:
  recording::log_lines::clock before_;
};

/// Handles all messages that are ready, then those of the next timer. False
/// when nothing is left.
bool go_on(virtual_time& time, size_t messages) {
  return time.run_until_idle(messages) == messages || time.jump();
}

run_end broken(const config::resolved& config, const std::string& how) {
  return {static_cast<uint8_t>(exit_status::failed),
          "a promise is broken at " + how +
            "; to be seen again with: " + config::to_command(config.values)};
}

} // namespace

run_end run_in_virtual_time(const config::resolved& config,
                            const virtual_run_options& options) {
  init_messages();
  caf::actor_system_config settings;
  virtual_time::choose(settings);
  caf::actor_system system{settings};
  system.await_actors_before_shutdown(false);
  std::optional<lines_in_virtual_time> clock;
  if (!options.silent)
    clock.emplace(system);
  std::optional<run_end> how;
  auto cluster = start_virtual_cluster(system, config, options,
                                       [&](const run_end& end) { how = end; });
  virtual_time time{system};
  wall_clock wall;
  double looked = 0;
  auto messages = cluster.breach ? with_faults : at_a_time;
  while (!how) {
    if (options.interrupted && wall.elapsed() - looked > look_interval) {
      looked = wall.elapsed();
      if (options.interrupted())
        cluster.stop();
    }
    if (!go_on(time, messages) && !how)
      throw run_error("the simulation stands still: every actor waits for "
                      "another; this is a bug of Troupe");
    if (cluster.breach)
      if (auto breach = cluster.breach(false))
        how = broken(config, *breach);
  }
  if (cluster.breach && how->status == 0)
    if (auto breach = cluster.breach(true))
      how = broken(config, *breach);
  if (cluster.counts && options.counts)
    options.counts(cluster.counts());
  if (cluster.strike)
    cluster.strike();
  while (system.registry().running() > 0 && go_on(time, messages))
    ;
  return *how;
}

} // namespace troupe::app
