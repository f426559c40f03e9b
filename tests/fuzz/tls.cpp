// What is read of TLS before anybody is trusted: the handshake of a stranger,
// at each end, and the files of certificates.

#include "apps/pki/authority.hpp"
#include "messages/path_error.hpp"
#include "messages/transport/tls/pem_files.hpp"
#include "messages/transport/tls/tls_identity.hpp"
#include "messages/transport/tls/tls_session.hpp"
#include "tests/fuzz/memory_file.hpp"
#include "tests/fuzz/seeds.hpp"
#include "tests/fuzz/targets.hpp"
#include "tests/support/sockets.hpp"

#include <sys/socket.h>

namespace troupe::fuzz {

using namespace transport;

namespace {

app::certificate_draft any_draft() {
  app::certificate_draft out;
  out.name = "node";
  out.hosts = {"localhost", "10.0.0.1"};
  out.roles = {"ps", "worker"};
  out.not_before = std::time(nullptr) - seconds_of_day;
  out.not_after = out.not_before + 365 * seconds_of_day;
  return out;
}

/// The files of a node whose CA has issued it, made once.
struct any_node {
  any_node() {
    auto draft = any_draft();
    draft.is_authority = true;
    auto authority = make_holder(draft, nullptr);
    auto made = make_holder(any_draft(), &authority);
    certificate = app::to_pem(made.certificate.get());
    key = app::to_pem(made.key.get());
    ca = app::to_pem(authority.certificate.get());
    memory_file certificates{std::string_view{certificate}};
    memory_file keys{std::string_view{key}};
    memory_file authorities{std::string_view{ca}};
    tls_terms terms;
    terms.cert = certificates.path();
    terms.key = keys.path();
    terms.ca = authorities.path();
    terms.lowest = tls_version::v1_2;
    identity = std::make_unique<tls_identity>(terms);
  }

  std::string certificate;
  std::string key;
  std::string ca;
  std::unique_ptr<tls_identity> identity;
};

const any_node& node() {
  static const any_node made;
  return made;
}

void put_bytes(const transport::socket& to, bytes_view bytes) {
  [[maybe_unused]] auto sent =
    ::send(to.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

std::string hello_of_client() {
  auto [here, there] = test::socket_pair();
  auto session = node().identity->connect(here.get(), "localhost");
  session->handshake();
  std::string out(4096, '\0');
  auto got = ::recv(there.get(), out.data(), out.size(), MSG_DONTWAIT);
  out.resize(static_cast<size_t>(got));
  return out;
}

} // namespace

bool handshake(bytes_view data) {
  auto dials = take_number<uint8_t>(data) % 2 == 1;
  auto both = test::socket_pair();
  auto session = dials ? node().identity->connect(both.first.get(), "localhost")
                       : node().identity->accept(both.first.get());
  return taken<path_error>([&] {
    // In two pieces: the first may end anywhere.
    put_bytes(both.second, take_bytes(data, data.size() / 2));
    session->handshake();
    put_bytes(both.second, data);
    session->handshake();
  });
}

bool certificate(bytes_view data) {
  memory_file file{data};
  certificate_chain chain;
  if (!taken([&] { chain = read_certificates(file.path()); }))
    return false;
  for (const auto& each : chain) {
    auto facts = facts_of(each.get());
    require_one_line(title_of(facts));
    require_one_line(hosts_text(facts));
    require_one_line(roles_text(facts));
    require_one_line(date_text(facts.not_before) + date_text(facts.not_after));
    for (const auto& host : facts.hosts)
      require_one_line(host);
    is_for_host(each.get(), "localhost");
    is_for_host(each.get(), "10.0.0.1");
  }
  return true;
}

bool key(bytes_view data) {
  memory_file file{data};
  return taken([&] { read_key(file.path()); });
}

inputs tls_seeds(std::string_view format) {
  if (format == "handshake")
    return {{"accepts", number(uint8_t{0}) + hello_of_client()},
            {"dials", number(uint8_t{1})}};
  if (format == "certificate")
    return {{"node", node().certificate},
            {"chain", node().certificate + node().ca},
            {"with-text", "Certificate:\n" + node().ca}};
  if (format == "key")
    return {{"node", node().key}};
  return {};
}

} // namespace troupe::fuzz
