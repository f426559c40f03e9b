#pragma once
// Names of hosts, for the processes of one test. It needs root; a test without
// is left out.

#include <catch2/catch_test_macros.hpp>
#include <sched.h>
#include <sys/mount.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace troupe::testing {

/// While it lives, this process and what it starts see another /etc/hosts, in a
/// mount namespace that ends with them.
class hosts_file {
public:
  hosts_file(const std::filesystem::path& folder, const std::string& text) {
    auto file = folder / "hosts";
    std::ofstream{file} << text;
    if (::unshare(CLONE_NEWNS) != 0 ||
        ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount(file.c_str(), path, nullptr, MS_BIND, nullptr) != 0)
      SKIP("this needs the right to mount a file");
  }

  ~hosts_file() { ::umount2(path, MNT_DETACH); }

  hosts_file(const hosts_file&) = delete;
  hosts_file& operator=(const hosts_file&) = delete;

private:
  static constexpr const char* path = "/etc/hosts";
};

} // namespace troupe::testing
