// The certificates that `trainer_node pki` makes, and those of other tools.

#include "apps/pki/pki.hpp"
#include "apps/pki/pki_folder.hpp"
#include "config/text/failure.hpp"
#include "messages/transport/tls/pem_files.hpp"
#include "tests/support/error_line.hpp"
#include "tests/tls/nodes.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <openssl/rsa.h>

#include <cstdlib>
#include <sstream>

using namespace troupe;
using namespace troupe::test;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

namespace {

namespace fs = std::filesystem;

/// Splits at blanks; FOLDER is that of the test.
std::vector<std::string> split(std::string line, const fs::path& folder) {
  for (auto at = line.find("FOLDER"); at != line.npos; at = line.find("FOLDER"))
    line.replace(at, 6, folder.string());
  std::istringstream words{line};
  std::vector<std::string> out;
  for (std::string word; words >> word;)
    out.push_back(word);
  return out;
}

void pki(const std::string& line, const testing::temporary_folder& in) {
  REQUIRE(app::pki_verb(split(line, in.path())) == exit_status::done);
}

std::string complaint(const std::string& line,
                      const testing::temporary_folder& in) {
  return error_line<usage_error>(
    [&] { app::pki_verb(split(line, in.path())); });
}

transport::certificate_facts facts_in(const fs::path& file) {
  return transport::facts_of(transport::read_certificates(file).front().get());
}

mode_t mode_of(const fs::path& path) {
  struct stat about {};
  ::stat(path.c_str(), &about);
  return about.st_mode & 0777;
}

bool openssl(const std::string& arguments) {
  return std::system(("openssl " + arguments + " > /dev/null 2>&1").c_str()) ==
         0;
}

/// RSA, and the extensions that easy-rsa writes: a use for one end each, and
/// names.
app::key_holder rsa_node(app::certificate_draft draft,
                         const app::key_holder& issuer) {
  app::key_holder out;
  out.key.reset(EVP_RSA_gen(2048));
  out.certificate = make_certificate(draft, out.key.get(), &issuer);
  return out;
}

} // namespace

TEST_CASE("an authority and two nodes connect", "[pki]") {
  testing::temporary_folder folder;
  pki("init --out FOLDER/pki", folder);
  pki("issue --out FOLDER/pki --name ps-0 --role ps --host localhost,[::1]",
      folder);
  pki("issue --out FOLDER/pki --name w --role Worker,evaluator --days 7",
      folder);
  auto at = folder / "pki";
  CHECK(mode_of(at / "ca.key") == 0600);
  CHECK(mode_of(at / "w" / "tls.key") == 0600);
  CHECK(testing::slurp(at / "w" / "ca.crt") == testing::slurp(at / "ca.crt"));
  auto facts = facts_in(at / "w" / "tls.crt");
  CHECK(facts.name == "w");
  CHECK(facts.roles == std::vector<std::string>{"worker", "evaluator"});
  CHECK(facts.issuer == facts_in(at / "ca.crt").name);
  CHECK(facts.issuer.starts_with("Troupe CA "));
  auto days = (facts.not_after - std::time(nullptr) + day / 2) / day;
  CHECK(days == 7);
  CHECK(facts.not_before < std::time(nullptr) - 60);
  tls_identity accepts{transport::terms_of_folder(at / "ps-0")};
  tls_identity dials{transport::terms_of_folder(at / "w")};
  CHECK(accepts.warnings().empty());
  CHECK(meet(dials, accepts, "localhost").none());
  CHECK(meet(dials, accepts, "::1").none());
  for (const auto& each : fs::directory_iterator{at})
    CHECK_FALSE(each.path().filename().string().starts_with("."));
}

TEST_CASE("what pki makes is right for the openssl command", "[pki]") {
  if (!openssl("version"))
    SKIP("there is no openssl command");
  testing::temporary_folder folder;
  pki("init --out FOLDER", folder);
  pki("issue --out FOLDER --name a --role ps --host a.example,10.0.0.1",
      folder);
  pki("issue --out FOLDER --name b --role worker", folder);
  auto verify = [&](const std::string& more) {
    return openssl("verify -x509_strict -CAfile " +
                   (folder / "ca.crt").string() + " " + more);
  };
  auto a = (folder / "a" / "tls.crt").string();
  auto b = (folder / "b" / "tls.crt").string();
  CHECK(verify("-purpose sslserver -verify_hostname a.example " + a));
  CHECK(verify("-purpose sslclient -verify_ip 10.0.0.1 " + a));
  CHECK_FALSE(verify("-verify_hostname b.example " + a));
  CHECK(verify("-purpose sslclient " + b));
  CHECK_FALSE(verify("-purpose sslserver " + b));
  CHECK(openssl("pkey -check -noout -in " + (folder / "a/tls.key").string()));
}

TEST_CASE("nothing is overwritten without being told", "[pki]") {
  testing::temporary_folder folder;
  pki("init --out FOLDER", folder);
  pki("issue --out FOLDER --name w --role worker", folder);
  auto key = testing::slurp(folder / "ca.key");
  auto node = testing::slurp(folder / "w/tls.key");
  CHECK_THAT(complaint("init --out FOLDER", folder),
             StartsWith((folder / "ca.key").string() + ": is there already") &&
               ContainsSubstring("--replace"));
  CHECK_THAT(complaint("issue --out FOLDER --name w --role worker", folder),
             StartsWith((folder / "w").string() + ": is there already") &&
               ContainsSubstring("--replace"));
  CHECK(testing::slurp(folder / "ca.key") == key);
  CHECK(testing::slurp(folder / "w/tls.key") == node);
  pki("issue --out FOLDER --name w --role worker --replace", folder);
  CHECK(testing::slurp(folder / "w/tls.key") != node);
  CHECK_NOTHROW(tls_identity{transport::terms_of_folder(folder / "w")});
  pki("init --out FOLDER --replace", folder);
  CHECK(testing::slurp(folder / "ca.key") != key);
}

TEST_CASE("renewing keeps the key and what is said", "[pki]") {
  testing::temporary_folder folder;
  pki("init --out FOLDER", folder);
  pki("issue --out FOLDER --name a --role ps,worker --host a.example,::1 "
      "--days 10",
      folder);
  pki("issue --out FOLDER --name b --role worker", folder);
  auto before = facts_in(folder / "a/tls.crt");
  auto other = testing::slurp(folder / "b/tls.crt");
  auto key = testing::slurp(folder / "a/tls.key");
  tls_identity running{transport::terms_of_folder(folder / "a")};
  pki("renew FOLDER", folder); // Those that end within 30 days.
  auto after = facts_in(folder / "a/tls.crt");
  CHECK(after.fingerprint != before.fingerprint);
  CHECK(after.roles == before.roles);
  CHECK(after.hosts == before.hosts);
  CHECK(after.not_after - before.not_after < 60);
  CHECK(testing::slurp(folder / "a/tls.key") == key);
  CHECK(testing::slurp(folder / "b/tls.crt") == other);
  CHECK(running.refresh().size() == 1);
  CHECK(running.own()->fingerprint == after.fingerprint);
  pki("renew FOLDER/b --days 40", folder);
  auto left = facts_in(folder / "b/tls.crt").not_after - std::time(nullptr);
  CHECK((left + day / 2) / day == 40);
  pki("renew FOLDER", folder);
  pki("show FOLDER/b", folder);
  pki("show FOLDER/ca.crt", folder);
}

TEST_CASE("no certificate outlives its authority", "[pki]") {
  testing::temporary_folder folder;
  pki("init --out FOLDER --days 20", folder);
  pki("issue --out FOLDER --name w --role worker", folder);
  CHECK(facts_in(folder / "w/tls.crt").not_after ==
        facts_in(folder / "ca.crt").not_after);
}

TEST_CASE("what pki cannot take is one clear line", "[pki]") {
  testing::temporary_folder folder;
  CHECK_THAT(
    complaint("issue --out FOLDER --name w --role worker", folder),
    StartsWith(folder.path().string() + ": holds no certificate authority"));
  pki("init --out FOLDER", folder);
  const std::string issue = "issue --out FOLDER --name ";
  CHECK_THAT(complaint(issue + "w --role workers", folder),
             StartsWith("--role workers: must be one of ps, worker"));
  CHECK_THAT(complaint(issue + "w --role worker,", folder),
             StartsWith("--role worker,: "));
  CHECK_THAT(complaint(issue + "../w --role worker", folder),
             StartsWith("--name ../w: must be at most 64 letters"));
  CHECK_THAT(complaint(issue + "ca.crt --role worker", folder),
             StartsWith("--name ca.crt: "));
  CHECK_THAT(complaint(issue + "p --role ps", folder),
             StartsWith("pki issue needs --host HOST[,HOST] with the role ps"));
  CHECK_THAT(complaint(issue + "p --role ps --host node1:4242", folder),
             StartsWith("--host node1:4242: 'node1:4242' must be a name or an "
                        "address, without a port"));
  CHECK_THAT(complaint(issue + "p --role ps --host a,,b", folder),
             ContainsSubstring("'' must be a name"));
  CHECK_THAT(complaint("renwe FOLDER", folder),
             ContainsSubstring("pki init --out DIR"));
  CHECK_FALSE(fs::exists(folder / "p"));
  auto strange = worker_folder();
  fs::create_directory(folder / "n");
  for (std::string file : {"tls.crt", "tls.key"})
    testing::spill(folder / ("n/" + file), testing::slurp(strange / file));
  CHECK_THAT(complaint("renew FOLDER/n", folder),
             ContainsSubstring("was not issued by "));
}

TEST_CASE("a chain of RSA, as other tools make it, is used", "[pki]") {
  app::key_holder authority;
  authority.key.reset(EVP_RSA_gen(2048));
  authority.certificate = make_certificate(authority_draft("Easy-RSA CA"),
                                           authority.key.get(), nullptr);
  node_folder server{
    rsa_node(draft_of("server", {"ps"}, {"localhost"}), authority), authority};
  node_folder client{rsa_node(draft_of("client", {"worker"}), authority),
                     authority};
  CHECK(
    meet(tls_identity{client.terms()}, tls_identity{server.terms()}).none());

  // Without the URI of a role, as they make it unless they are told.
  node_folder plain{rsa_node(draft_of("client", {}, {"client"}), authority),
                    authority};
  auto line = error_line<run_error>([&] { tls_identity{plain.terms()}; });
  CHECK(line == (plain / "tls.crt").string() +
                  ": says no role: its alternative names need a URI such as "
                  "troupe-role:worker; trainer_node pki issue --role worker "
                  "adds it");
}
