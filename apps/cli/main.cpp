// trainer_node: one process of a run. Reads the settings, starts the actors of
// its role, passes signals on, and turns the end of the run into an exit
// status.

#include "actors/own_loop/training.hpp"
#include "actors/recording/console.hpp"
#include "actors/recording/log_lines.hpp"
#include "actors/runtime/inline_execution.hpp"
#include "actors/server/parameter_server.hpp"
#include "apps/checkpoint/checkpoint.hpp"
#include "apps/cli/ctl.hpp"
#include "apps/cli/error_file.hpp"
#include "apps/cli/joint_end.hpp"
#include "apps/cli/leash.hpp"
#include "apps/cli/list_datasets.hpp"
#include "apps/cli/list_devices.hpp"
#include "apps/cli/list_networks.hpp"
#include "apps/cli/log_choice.hpp"
#include "apps/cli/signals.hpp"
#include "apps/data/data.hpp"
#include "apps/evaluation/evaluation.hpp"
#include "apps/lab/calibrate/calibrate.hpp"
#include "apps/lab/compare/compare.hpp"
#include "apps/lab/replay_plan.hpp"
#include "apps/lab/virtual_run.hpp"
#include "apps/large_pages.hpp"
#include "apps/launch/launch.hpp"
#include "apps/launch/ssh/agent.hpp"
#include "apps/pki/pki.hpp"
#include "apps/startup/clock_watch.hpp"
#include "apps/startup/known_nodes.hpp"
#include "apps/startup/meeting_file.hpp"
#include "apps/startup/next_life.hpp"
#include "apps/startup/resources.hpp"
#include "apps/startup/trust.hpp"
#include "apps/trainer_node/node.hpp"
#include "config/commands/command_line.hpp"
#include "config/text/failure.hpp"
#include "config/text/one_line.hpp"
#include "messages/transport/wire/descriptor_limit.hpp"
#include "models/engine/tensor_memory.hpp"

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/io/middleman.hpp>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace {

using namespace troupe;

/// Seconds that actors have to end after the run. Then the process exits
/// anyway, unless a training loop of the program's own still runs: the process
/// waits for that one until a signal comes.
constexpr auto grace = std::chrono::seconds(3);

/// The same for a node that has nobody to tell of its end: actors that are left
/// end with the program.
constexpr auto brief_grace = std::chrono::milliseconds(300);

/// Seconds; a time limit for what somebody else ends.
constexpr double endless = 1e6;

void configure(caf::actor_system_config& target,
               const config::settings& settings) {
  auto seconds = [](double x) {
    return std::chrono::duration_cast<caf::timespan>(
      std::chrono::duration<double>(x));
  };
  allow_inline_execution(target, 2);
  if (settings.what == config::role::simulate)
    return;
  target.load<caf::io::middleman>();
  target.set("caf.middleman.app-identifiers",
             std::vector<std::string>{"troupe"});
  auto silence = settings.cluster.liveness_timeout;
  target.set("caf.middleman.heartbeat-interval", seconds(silence / 4));
  target.set("caf.middleman.connection-timeout", seconds(silence));
}

app::node start(caf::actor_system& system, const config::resolved& config,
                const app::server_options& options) {
  app::node_options others{options.on_end, options.nodes, options.exchange,
                           options.interrupted, options.own};
  switch (config.values.what) {
  case config::role::worker:
    return app::start_participant(system, config, others);
  case config::role::evaluator:
    return config.values.evaluation.follow == "ps"
             ? app::start_participant(system, config, others)
             : app::start_follower(system, config, options.on_end);
  default:
    if (config::is_remote_shard(config.values))
      return app::start_shard(system, config, others);
    return app::start_server(system, config, options);
  }
}

/// Throws `run_error` if too few file descriptors are left: the process would
/// end later, without a message.
void require_files(const config::settings& settings) {
  transport::descriptor_limit files;
  size_t needs = settings.what == config::role::ps ? 24 : 16;
  if (auto left = files.left(); left < needs)
    throw run_error("this process may open " + std::to_string(files.most()) +
                    " files, of which " + std::to_string(left) +
                    " are left, and needs " + std::to_string(needs) +
                    " at least; raise the limit with ulimit -n");
}

/// Ends the process without waiting for actors that hang.
[[noreturn]] void leave_now(exit_status status) {
  std::_Exit(static_cast<int>(status));
}

/// Prints a line on stderr, once, even when both parts of a node end for the
/// same reason. Throws without memory for the console's thread; then the line
/// does not count as printed.
void complain(const std::string& line) {
  static std::string before;
  static std::mutex mutex;
  std::unique_lock guard{mutex};
  if (before == line)
    return;
  recording::console::standard_output().flush();
  auto& errors = recording::console::standard_error();
  errors.say("trainer_node: " + line);
  errors.flush();
  before = line;
}

/// Reports the failure to the user; returns the exit status for it.
exit_status complain_of(const std::exception& err) {
  complain(one_line(err));
  app::write_error_file(one_line(err));
  auto known = dynamic_cast<const failure*>(&err);
  return known != nullptr ? known->status() : exit_status::failed;
}

/// Ends the process, because nothing would stop the actors that already run
/// when a later one cannot start.
template <class F>
auto or_leave(F start) {
  try {
    return start();
  } catch (const std::exception& err) {
    leave_now(complain_of(err));
  }
}

/// Reports what went wrong, if anything, and exits with the status of the end.
exit_status leave_with(const run_end& how) {
  if (!how.line.empty())
    complain(how.line);
  if (how.failed())
    app::write_error_file(how.line);
  recording::console::standard_output().flush();
  return static_cast<exit_status>(how.status);
}

/// Prints how a worker or an evaluator ended that has nothing to complain of;
/// it would end without a word. With `--compute external` the process that
/// computes is told instead.
void say_how_it_ended(const config::settings& settings, const run_end& how) {
  auto is_participant = settings.what == config::role::worker ||
                        settings.what == config::role::evaluator;
  if (!is_participant || !how.line.empty() ||
      settings.training.compute == config::compute_kind::external)
    return;
  recording::say(how.status == 0 ? "ended        the run is over"
                                 : "ended        it was told to stop");
}

exit_status run_virtual(const config::resolved& config,
                        app::signal_pump& signals,
                        const app::earlier_start& earlier,
                        std::shared_ptr<const app::replay_plan> replay = {}) {
  app::prefer_large_pages();
  app::virtual_run_options options;
  options.replay = std::move(replay);
  options.earlier = earlier;
  options.interrupted = [&] {
    return signals.arrived();
  };
  return leave_with(app::run_in_virtual_time(config, options));
}

/// Prints a line at once, before the run begins.
void say(const std::string& line) {
  auto text = recording::log_lines::of_process().make(line);
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

exit_status run_replay(const config::invocation& call,
                       app::signal_pump& signals) {
  auto plan = app::plan_replay(call, say);
  app::choose_log_form(plan->config.values);
  return run_virtual(plan->config, signals, {}, plan);
}

void say_device(const std::string& chosen) {
  if (!chosen.empty())
    say("device       " + chosen);
}

exit_status run_evaluation(const config::resolved& config,
                           app::signal_pump& signals) {
  auto chosen = config;
  say_device(app::choose_device(chosen.values));
  app::keep_tensor_memory(chosen.values);
  return app::evaluate(chosen, [&] { return signals.arrived(); });
}

/// The worker of a peer, in an actor system of its own: a system cannot connect
/// to itself, and so the worker reaches the shard of its node as it reaches all
/// others.
class own_worker {
public:
  own_worker(config::resolved config, const app::node_options& options) {
    config.values.what = config::role::worker;
    // It looks for its lead as long as its shard, which knows when to end.
    config.values.cluster.connect_timeout = endless;
    configure(settings_, config.values);
    system_.emplace(settings_);
    system_->await_actors_before_shutdown(false);
    node_ = app::start_participant(*system_, config, options);
  }

  void stop() { node_.stop(); }

  size_t running() { return system_->registry().running(); }

private:
  caf::actor_system_config settings_;
  std::optional<caf::actor_system> system_;
  app::node node_;
};

exit_status run(const config::resolved& config, app::meeting_file* meeting,
                app::signal_pump& signals, app::earlier_start earlier,
                char** arguments) {
  require_files(config.values);
  init_messages();
  caf::actor_system_config settings;
  configure(settings, config.values);
  caf::actor_system system{settings};
  system.await_actors_before_shutdown(false);
  app::joint_end both{[&](const run_end& how) {
    signals.end(how);
  }};
  auto peer = config::is_peer(config.values);
  auto nodes =
    std::make_shared<app::known_nodes>(config.values, app::this_life());
  auto exchange = or_leave(
    [&] { return app::gpu_exchange_for(config.values, recording::say); });
  auto own = or_leave(
    [&] { return app::credentials_of(config.values.cluster, recording::say); });
  auto node = or_leave([&] {
    return start(system, config,
                 {[&](const run_end& how) {
                    peer ? both.shard_ended(how) : signals.end(how);
                  },
                  nodes, std::move(earlier), [&] { return signals.arrived(); },
                  exchange, own});
  });
  signals.begun();
  if (meeting != nullptr && node.life)
    or_leave([&] { meeting->note_life(*node.life); });
  std::optional<own_worker> worker;
  if (peer && both.shard_is_over()) // The run was complete before.
    both.worker_ended({});
  else if (peer)
    or_leave([&] {
      worker.emplace(
        config, app::node_options{[&](const run_end& how) {
                                    if (how.status != 0)
                                      complain(how.line);
                                    both.worker_ended({how.status, {}});
                                  },
                                  nodes, exchange, [] { return false; }, own});
    });
  // A person who presses Ctrl-C does not want to wait.
  auto stop = [&node](int signal) {
    if (signal != SIGINT && node.stop_in_time)
      node.stop_in_time(signal);
    else
      node.stop();
  };
  app::clock_watch watch;
  auto how = signals.wait(stop, [&watch] {
    models::give_back_idle_tensor_memory();
    if (auto line = watch.look())
      recording::say(*line);
  });
  if (how.next.empty())
    say_how_it_ended(config.values, how);
  app::run_in_hand held{node.directory, node.lock};
  node = {};
  if (worker)
    worker->stop();
  auto goes_on = !how.next.empty();
  auto tells_others = config.values.cluster.rank == 0u;
  // A life that has failed has told nobody: its nodes look for the next one.
  auto outlived = outlived_by_nodes(config.values);
  auto has_told = goes_on ? tells_others : !outlived || !how.failed();
  auto deadline =
    std::chrono::steady_clock::now() + (has_told ? grace : brief_grace);
  while (system.registry().running() > 0 || (worker && worker->running() > 0)) {
    auto late = std::chrono::steady_clock::now() > deadline;
    if (late && goes_on)
      break;
    if (late && (!remote::is_training() || signals.arrived()))
      leave_now(leave_with(how));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (!goes_on)
    return leave_with(how);
  if (signals.seen() || signals.arrived())
    return leave_with({static_cast<uint8_t>(exit_status::try_again),
                       "stopped by a signal between two lives of the run"});
  recording::say("goes on      " + how.line);
  recording::console::standard_output().flush();
  if (outlived)
    app::begin_again(held, arguments);
  app::begin_next_life(how, *nodes, held, arguments);
}

} // namespace

int main(int argc, char** argv) {
  try {
    app::take_leash();
    const std::vector<std::string> arguments{argv + (argc > 0), argv + argc};
    app::choose_log_form_early(arguments, config::process_environment());
    if (argc > 1 && std::string_view{argv[1]} == "compare") {
      app::prefer_large_pages();
      app::signal_pump signals;
      return static_cast<int>(app::compare({argv + 2, argv + argc},
                                           [&] { return signals.arrived(); }));
    }
    if (argc > 1 && std::string_view{argv[1]} == "calibrate")
      return static_cast<int>(app::calibrate({argv + 2, argv + argc}));
    if (argc > 1 && std::string_view{argv[1]} == "launch")
      return static_cast<int>(app::launch({argv + 2, argv + argc}));
    if (argc > 1 && std::string_view{argv[1]} == "launch-agent")
      return static_cast<int>(app::run_launch_agent({argv + 2, argv + argc}));
    if (argc > 1 && std::string_view{argv[1]} == "devices")
      return static_cast<int>(app::list_devices({argv + 2, argv + argc}));
    if (argc > 1 && std::string_view{argv[1]} == "data")
      return static_cast<int>(app::data_verb({argv + 2, argv + argc}));
    if (argc > 1 && std::string_view{argv[1]} == "checkpoint")
      return static_cast<int>(app::checkpoint_verb({argv + 2, argv + argc}));
    if (argc > 1 && std::string_view{argv[1]} == "ctl")
      return static_cast<int>(app::ctl_verb({argv + 2, argv + argc}));
    if (argc > 1 && std::string_view{argv[1]} == "pki")
      return static_cast<int>(app::pki_verb({argv + 2, argv + argc}));
    app::signal_pump signals;
    app::require_run_is_here(app::this_life());
    app::earlier_start earlier;
    auto call =
      config::parse_command_line(arguments, config::process_environment(),
                                 app::make_run_finder(earlier, say));
    app::choose_log_form(call.config.values);
    if (call.what == config::action::check)
      call.text = app::plan_with_model(call.config);
    if (call.what == config::action::list_networks)
      call.text = app::list_networks();
    if (call.what == config::action::list_datasets)
      call.text = app::list_datasets();
    if (call.what == config::action::run)
      for (const auto& line : call.config.decisions)
        say(line);
    if (call.what == config::action::run ||
        call.what == config::action::evaluate)
      for (const auto& note : call.config.notes)
        say("network      " + note);
    if (call.what == config::action::evaluate)
      return static_cast<int>(run_evaluation(call.config, signals));
    if (call.what == config::action::replay)
      return static_cast<int>(run_replay(call, signals));
    if (call.what != config::action::run) {
      std::cout << call.text;
      return 0;
    }
    auto meeting = app::meet_by_file(call.config);
    say_device(app::choose_device(call.config.values));
    app::open_placed_devices(call.config.values);
    app::keep_tensor_memory(call.config.values);
    return static_cast<int>(
      is_virtual(call.config.values)
        ? run_virtual(call.config, signals, earlier)
        : run(call.config, meeting.get(), signals, std::move(earlier), argv));
  } catch (const std::exception& err) {
    return static_cast<int>(complain_of(err));
  }
}
