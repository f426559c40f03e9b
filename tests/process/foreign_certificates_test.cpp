// Nodes whose certificates another tool has made.

#include "tests/process/process_fixture.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cstdlib>
#include <filesystem>

using namespace troupe::testing;

TEST_CASE("nodes with certificates of easy-rsa know each other") {
  constexpr const char* tool = "/usr/share/easy-rsa/easyrsa";
  if (!std::filesystem::exists(tool))
    SKIP("this needs the package easy-rsa");
  process_fixture on;
  auto folder = (on.home() / "pki").string();
  auto easyrsa = [&](const std::string& variables, const std::string& verb) {
    auto command = "EASYRSA_BATCH=1 EASYRSA_PKI=" + folder + " " + variables +
                   " " + tool + " " + verb + " >>" + folder + ".log 2>&1";
    INFO(command);
    REQUIRE(std::system(command.c_str()) == 0);
  };
  easyrsa("", "init-pki");
  easyrsa("EASYRSA_REQ_CN='Test CA'", "build-ca nopass");
  easyrsa("EASYRSA_EXTRA_EXTS="
          "'subjectAltName=IP:127.0.0.1,URI:troupe-role:ps'",
          "build-serverClient-full ps-0 nopass");
  easyrsa("EASYRSA_EXTRA_EXTS='subjectAltName=URI:troupe-role:worker'",
          "build-client-full worker-0 nopass");
  auto files = [&](const std::string& name) {
    return flags{"--tls-cert", folder + "/issued/" + name + ".crt",
                 "--tls-key",  folder + "/private/" + name + ".key",
                 "--tls-ca",   folder + "/ca.crt"};
  };
  auto server =
    on.listening_server(files("ps-0") + flags{"--workers", "1", "--epochs", "1",
                                              "--transport", "stream"});
  auto worker = on.worker(files("worker-0") + flags{"--threads", "1"});
  check_end(worker, 0);
  check_end(server, 0);
  CHECK(on.summary()["samples_applied"] == digits);
}
