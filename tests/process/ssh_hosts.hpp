#pragma once
// Hosts for `trainer_node launch --hosts`: addresses of this machine, at which
// a real sshd listens. Each has a home folder of its own, and all keep what a
// launch brings along in one folder of the build, so that it is not copied for
// each test. Owned by a test, used on its thread.

#include "tests/process/process_fixture.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <stdexcept>
#include <string>
#include <vector>

namespace troupe::testing {

class ssh_hosts {
public:
  ssh_hosts() {
    if (::geteuid() == 0)
      std::filesystem::create_directories("/run/sshd");
    for (std::string name : {"key", "other_key", "host_key"})
      run(
        {TROUPE_SSH_KEYGEN, "-q", "-t", "ed25519", "-N", "", "-f", path(name)});
    for (const auto& name : names)
      std::filesystem::create_directories(home_of(name));
    std::filesystem::create_directories(home_of("::1"));
    write("enter",
          "#!/bin/sh\n"
          "set -- $SSH_CONNECTION\n"
          "export HOME=" +
            path("home-") +
            "$3\n"
            "export XDG_CACHE_HOME=" +
            cache().string() +
            "\n"
            "cd\n"
            "[ ! -d work ] || exec unshare -m sh -c 'mount --bind work " +
            on.home().string() +
            " && cd / && "
            "exec sh -c \"$SSH_ORIGINAL_COMMAND\"'\n"
            "exec sh -c \"$SSH_ORIGINAL_COMMAND\"\n");
    std::filesystem::permissions(path("enter"),
                                 std::filesystem::perms::owner_all);
    write("authorized",
          "command=\"" + path("enter") + "\" " + slurp(path("key.pub")));
    std::string listens{"ListenAddress ::1\n"}; // Where there is IPv6.
    for (const auto& name : names)
      listens += "ListenAddress " + name + "\n";
    write("sshd_config", "Port " + port_ + "\n" + listens + "HostKey " +
                           path("host_key") +
                           "\n"
                           "PidFile none\nAuthorizedKeysFile " +
                           path("authorized") +
                           "\nPasswordAuthentication no\n"
                           "KbdInteractiveAuthentication no\n"
                           "PermitRootLogin prohibit-password\n"
                           "UsePAM no\nStrictModes no\nMaxStartups 100\n");
    write("config", client("key", port_));
    write("config-other-key", client("other_key", port_));
    write("config-no-port", client("key", std::to_string(free_port())));
    write("hosts", names[0] + "\n" + names[1] + " slots=1 ; b\n\n# c:\n" +
                     names[2] + "\n");
    sshd_.emplace(child{{TROUPE_SSHD, "-D", "-e", "-f", path("sshd_config")},
                        folder_ / "sshd"});
    eventually("an sshd", [&] {
      return child{{"/bin/sh", "-c",
                    "ssh -F " + path("config") + " " + names[2] + " true"},
                   folder_ / "first"}
               .wait() == 0;
    });
  }

  /// Starts a launch over all hosts.
  child launch(const flags& own, const flags& of_nodes,
               const std::string& config = "config") {
    child_options how;
    how.environment["TROUPE_SSH"] = "ssh -F " + path(config);
    return on.start("launch",
                    flags{"launch", "--hosts", path("hosts")} + own +
                      flags{"--"} + of_nodes,
                    how);
  }

  /// Settings of nodes of a recorded run.
  flags recorded_run(const flags& more) const {
    return flags{"--train-dir", on.run().string()} + on.of_writer() + more;
  }

  /// A process of this test's launch whose command line has this pattern.
  pid_t find(const std::string& pattern) const {
    pid_t out = 0;
    eventually("a process: " + pattern, [&] {
      auto all = nodes(pattern);
      out = all.empty() ? 0 : all.front();
      return out != 0;
    });
    return out;
  }

  /// The nodes of this test's launch, which all know its run directory.
  std::vector<pid_t> nodes(const std::string& pattern = "--role") const {
    std::vector<pid_t> out;
    std::regex wanted{pattern};
    for (const auto& one : std::filesystem::directory_iterator{"/proc"}) {
      auto pid = std::atoi(one.path().filename().c_str());
      auto command = pid > 0 ? slurp(one.path() / "cmdline") : std::string{};
      std::ranges::replace(command, '\0', ' ');
      auto is_of_launch = command.find("lib/trainer_node") != command.npos &&
                          command.find(on.home().string()) != command.npos;
      if (is_of_launch && std::regex_search(command, wanted))
        out.push_back(pid);
    }
    return out;
  }

  static std::filesystem::path cache() { return TROUPE_HOSTS_CACHE; }

  std::filesystem::path home_of(const std::string& name) const {
    return path("home-" + name);
  }

  std::string path(const std::string& name) const {
    return (folder_ / name).string();
  }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream{path(name)} << text;
  }

  const std::vector<std::string> names{"127.0.0.2", "127.0.0.3", "127.0.0.4"};
  process_fixture on{recorded};

private:
  std::string client(const std::string& key, const std::string& port) const {
    return "Host *\n  Port " + port + "\n  IdentityFile " + path(key) +
           "\n  IdentitiesOnly yes\n  UserKnownHostsFile " + path("known") +
           "\n  StrictHostKeyChecking accept-new\n  LogLevel ERROR\n";
  }

  void run(const std::vector<std::string>& command) {
    if (child{command, folder_ / "run"}.wait() != 0)
      throw std::runtime_error(command.front() + " has failed");
  }

  temporary_folder home_;
  std::filesystem::path folder_ = home_.path();
  std::string port_ = std::to_string(free_port());
  std::optional<child> sshd_;
};

} // namespace troupe::testing
