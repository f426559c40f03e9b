#include "apps/launch/launch.hpp"

#include "actors/recording/log_lines.hpp"
#include "apps/launch/hosts/local_host.hpp"
#include "apps/launch/launch_plan.hpp"
#include "apps/launch/launcher.hpp"
#include "apps/launch/luggage.hpp"
#include "apps/launch/ssh/connecting.hpp"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <thread>
#include <utility>

namespace troupe::app {

namespace {

void say_line(const std::string& line) {
  std::fputs(recording::log_lines::of_process().make(line).c_str(), stdout);
  std::fflush(stdout);
}

/// The form of the launch's own lines.
void choose_form(const launch_plan& plan) {
  if (plan.servers.front().as_json)
    recording::log_lines::of_process().use_json(
      recording::origin_of_process("launch", {}));
}

exit_status run_here(const launch_call& call, launch_facts facts) {
  facts.cores = {std::max(1u, std::thread::hardware_concurrency())};
  hosts here;
  here.push_back(std::make_unique<local_host>());
  facts.free_port = [&] {
    return here.front()->find_port("127.0.0.1");
  };
  facts.make_folder = [&](const std::string& network) {
    return here.front()->make_folder(network);
  };
  auto plan = plan_launch(call, facts);
  choose_form(plan);
  return run_launch(plan, here);
}

exit_status run_there(const launch_call& call, launch_facts facts) {
  std::signal(SIGPIPE, SIG_IGN); // A connection that has ended.
  // Before anybody is asked: settings that are wrong start nothing.
  facts.cores.assign(call.hosts.size(), 0);
  facts.free_port = [] {
    return config::cluster_settings{}.port;
  };
  facts.make_folder = [](const std::string& network) {
    return "runs/" + network;
  };
  plan_launch(call, facts);
  auto luggage = pack_luggage(call, *facts.secrets);
  auto connected = connect_hosts(call.hosts, luggage, say_line);
  hosts there;
  std::vector<std::filesystem::path> folders;
  for (size_t i = 0; i < connected.size(); ++i) {
    facts.cores[i] = connected[i]->cores();
    folders.push_back(connected[i]->folder());
    there.push_back(std::move(connected[i]));
  }
  facts.free_port = [&] {
    return there.front()->find_port("0.0.0.0");
  };
  facts.make_folder = [&](const std::string& network) {
    return there.front()->make_folder(network);
  };
  auto plan = plan_launch(call, facts);
  choose_form(plan);
  for (const auto& line : describe_hosts(call.hosts, plan, folders))
    say_line(line);
  for (const auto& line : plan.warnings)
    say_line("warning      " + line);
  return run_launch(plan, there);
}

} // namespace

exit_status launch(const std::vector<std::string>& arguments) {
  std::string help;
  auto call = read_launch(arguments, help);
  if (!call) {
    std::cout << help;
    return exit_status::done;
  }
  run_secrets secrets;
  launch_facts facts;
  facts.secrets = &secrets;
  facts.program = std::filesystem::read_symlink("/proc/self/exe");
  facts.variables = config::process_environment();
  return call->hosts.empty() ? run_here(*call, facts) : run_there(*call, facts);
}

} // namespace troupe::app
