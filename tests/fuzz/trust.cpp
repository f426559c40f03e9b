// Files and words by which a node is told whom to trust and whom to dial.

#include "apps/startup/trust.hpp"

#include "config/text/value.hpp"
#include "config/values/address.hpp"
#include "messages/transport/tls/certificate.hpp"
#include "tests/fuzz/memory_file.hpp"
#include "tests/fuzz/seeds.hpp"
#include "tests/fuzz/targets.hpp"

namespace troupe::fuzz {

bool token(bytes_view data) {
  memory_file file{data};
  config::cluster_settings cluster;
  cluster.token_file = file.path();
  return taken([&] {
    auto proof = app::credentials_of(cluster, nullptr).proof;
    require(proof.size() == 32, "an opening has room for the proof");
  });
}

bool pin(bytes_view data) {
  auto found = transport::parse_fingerprint(text_of(data));
  require(found.empty() || found.size() == 64, "a fingerprint has 64 digits");
  return !found.empty();
}

bool address(bytes_view data) {
  return taken<config::bad_value>([&] {
    auto found = config::parse_address(text_of(data));
    require(!found.host.empty(), "an address has a host");
    config::is_loopback(found.host);
  });
}

inputs trust_seeds(std::string_view format) {
  if (format == "token")
    return {{"hex", "00112233445566778899aabbccddeeff\n"},
            {"words", "  correct horse battery staple \r\n"}};
  if (format == "pin")
    return {{"plain", std::string(64, 'a')},
            {"colons", "AA:" + std::string(62, '0')}};
  if (format == "address")
    return {{"name", "node1:4242"},
            {"ipv4", "10.0.0.1:1"},
            {"ipv6", "[fe80::1%eth0]:65535"}};
  return {};
}

} // namespace troupe::fuzz
