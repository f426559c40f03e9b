#pragma once
// Machines of their own network: namespaces of the kernel, and wires between
// them. They need root, and the tools ip and nft; a test without them is left
// out. Owned by a test, used on its thread: processes that it starts inside
// live there.

#include "config/text/descriptor.hpp"
#include "tests/support/process.hpp"
#include "tests/support/temporary_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace troupe::testing {

class machines {
public:
  /// @param names Of the machines, which have loopback alone.
  explicit machines(const std::vector<std::string>& names) {
    if (::geteuid() != 0 || !runs("ip -V") || !runs("nft -v"))
      SKIP("this needs root, ip and nft");
    for (const auto& name : names) {
      if (!runs("ip netns add " + of(name)))
        SKIP("this needs the right to make network namespaces");
      names_.push_back(name);
      run(name, "ip link set lo up");
    }
  }

  ~machines() {
    for (const auto& name : names_)
      runs("ip netns del " + of(name));
  }

  machines(const machines&) = delete;
  machines& operator=(const machines&) = delete;

  /// A wire between two machines, with an interface and its address at each
  /// end: "eth0 10.0.0.1/24".
  void connect(const std::string& a, const std::string& at_a,
               const std::string& b, const std::string& at_b) {
    auto name_of = [](const std::string& end) {
      return end.substr(0, end.find(' '));
    };
    check("ip link add " + name_of(at_a) + " netns " + of(a) +
          " type veth peer name " + name_of(at_b) + " netns " + of(b));
    for (const auto& [who, end] : {std::pair{a, at_a}, std::pair{b, at_b}}) {
      auto name = name_of(end);
      run(who,
          "ip address add " + end.substr(name.size() + 1) + " dev " + name);
      run(who, "ip link set " + name + " up");
    }
  }

  /// A command on a machine, which must succeed.
  void run(const std::string& where, const std::string& command) {
    check("ip netns exec " + of(where) + " " + command);
  }

  /// The kernel's name of a machine.
  static std::string of(const std::string& name) {
    return "troupe-" + std::to_string(::getpid()) + "-" + name;
  }

private:
  child start(const std::string& command) {
    return child{{"/bin/sh", "-c", "PATH=$PATH:/usr/sbin:/sbin; " + command},
                 home_ / std::to_string(++commands_)};
  }

  bool runs(const std::string& command) { return start(command).wait() == 0; }

  void check(const std::string& command) {
    auto one = start(command);
    if (one.wait() != 0)
      throw std::runtime_error(command + ": " + one.report());
  }

  temporary_folder home_;
  std::vector<std::string> names_;
  int commands_ = 0;
};

/// While it lives, this thread and what it starts are on a machine.
class inside {
public:
  explicit inside(const std::string& name)
    : before_(::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC)) {
    config::descriptor there{::open(
      ("/run/netns/" + machines::of(name)).c_str(), O_RDONLY | O_CLOEXEC)};
    if (::setns(there.get(), CLONE_NEWNET) != 0)
      throw std::runtime_error("no machine " + name);
  }

  ~inside() { ::setns(before_.get(), CLONE_NEWNET); }

  inside(const inside&) = delete;
  inside& operator=(const inside&) = delete;

private:
  config::descriptor before_;
};

} // namespace troupe::testing
