#pragma once
// Clusters whose nodes show each other certificates or a token.

#include "tests/process/process_fixture.hpp"

#include <catch2/catch_test_macros.hpp>

#include <fstream>
#include <regex>
#include <string>

namespace troupe::testing {

/// A cluster on loopback with a certificate authority.
struct trusted_cluster {
  explicit trusted_cluster(bool recorded = false)
    : on(recorded ? process_fixture{troupe::testing::recorded}
                  : process_fixture{}) {
    pki({"init", "--out", folder("ca")});
  }

  std::string folder(const std::string& name) const {
    return (on.home() / name).string();
  }

  std::string pki(const flags& arguments) {
    auto done = on.start("pki", flags{"pki"} + arguments);
    check_end(done, 0);
    return done.out();
  }

  /// The flag for a new certificate.
  flags dir(const std::string& name, const std::string& roles,
            const std::string& ca = "ca",
            const std::string& hosts = "127.0.0.1") {
    pki(flags{"issue", "--out", folder(ca), "--name", name, "--role", roles,
              "--host", hosts});
    return {"--tls-dir", folder(ca) + "/" + name};
  }

  /// The files of a certificate, as flags for light mode.
  flags own(const std::string& name) {
    dir(name, "ps");
    auto at = folder("ca") + "/" + name;
    return {"--tls-cert", at + "/tls.crt", "--tls-key", at + "/tls.key"};
  }

  flags token(const std::string& name, const std::string& text) {
    std::ofstream{folder(name)} << text << '\n';
    return {"--token-file", folder(name)};
  }

  process_fixture on;
};

inline const flags impatient{"--connect-timeout", "1", "--threads", "1"};

/// What a node has printed, with each line break and indent as one space.
inline std::string words_of(const child& who) {
  return std::regex_replace(who.err() + who.out(), std::regex{"\\s+"}, " ");
}

} // namespace troupe::testing
