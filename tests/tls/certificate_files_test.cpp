// The files of a node: what is wrong with them, and what happens when they
// change.

#include "config/text/failure.hpp"
#include "tests/support/error_line.hpp"
#include "tests/tls/nodes.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <openssl/pem.h>

#include <atomic>
#include <thread>

using namespace troupe;
using namespace troupe::test;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

namespace {

std::string complaint_of(const tls_terms& terms) {
  return error_line<run_error>([&] { tls_identity{terms}; });
}

std::string complaint_of(const node_folder& node) {
  return complaint_of(node.terms());
}

std::string at(const node_folder& node, const std::string& file) {
  return (node / file).string() + ": ";
}

} // namespace

TEST_CASE("a file that is missing is named", "[tls]") {
  for (std::string file : {"tls.crt", "tls.key", "ca.crt"}) {
    auto node = worker_folder();
    std::filesystem::remove(node / file);
    CHECK(complaint_of(node) ==
          at(node, file) +
            "cannot be read: No such file or directory; trainer_node pki "
            "issue makes the files of a node");
  }
}

TEST_CASE("a file that is cut short, damaged or something else is named",
          "[tls]") {
  for (std::string file : {"tls.crt", "tls.key", "ca.crt"}) {
    auto node = worker_folder();
    auto whole = testing::slurp(node / file);
    node.write(file, whole.substr(0, whole.size() / 2));
    CHECK_THAT(complaint_of(node), StartsWith(at(node, file) + "is cut short"));
    node.write(file, "");
    CHECK_THAT(complaint_of(node), StartsWith(at(node, file) + "is empty"));
    node.write(file, "hello\n");
    CHECK_THAT(complaint_of(node), StartsWith(at(node, file) + "holds no ") &&
                                     ContainsSubstring("in PEM form"));
    node.write(file, std::string{"\x30\x82\x01\x02", 4} + "\x02\x03");
    CHECK_THAT(complaint_of(node),
               StartsWith(at(node, file) + "is in DER form"));
    auto damaged = whole;
    damaged[whole.size() / 2] = damaged[whole.size() / 2] == 'A' ? 'B' : 'A';
    damaged.erase(whole.size() / 2 + 3, 8);
    node.write(file, damaged);
    CHECK_THAT(complaint_of(node), StartsWith(at(node, file) + "is damaged"));
  }
}

TEST_CASE("files in each other's place are told apart", "[tls]") {
  auto node = worker_folder();
  auto key = testing::slurp(node / "tls.key");
  auto certificate = testing::slurp(node / "tls.crt");
  node.write("tls.crt", key);
  CHECK_THAT(complaint_of(node), StartsWith(at(node, "tls.crt") +
                                            "holds no certificate, but a key"));
  node.write("tls.crt", certificate);
  node.write("tls.key", certificate);
  CHECK_THAT(complaint_of(node),
             StartsWith(at(node, "tls.key") + "holds no key"));
  node.write("tls.key", key);
  node.write("ca.crt", certificate);
  CHECK_THAT(complaint_of(node),
             StartsWith(at(node, "ca.crt") + "'worker-0' is no CA"));
  node.write("ca.crt", testing::slurp(worker_folder() / "ca.crt"));
  CHECK_NOTHROW(tls_identity{node.terms()});
}

TEST_CASE("the key of another certificate is refused", "[tls]") {
  auto node = worker_folder();
  node.write("tls.key", testing::slurp(worker_folder() / "tls.key"));
  CHECK_THAT(complaint_of(node),
             StartsWith(at(node, "tls.key") + "is not the key of " +
                        (node / "tls.crt").string()));
}

TEST_CASE("a key that others may read is a warning", "[tls]") {
  auto node = worker_folder();
  CHECK(tls_identity{node.terms()}.warnings().empty());
  ::chmod((node / "tls.key").c_str(), 0644);
  CHECK(tls_identity{node.terms()}.warnings() ==
        std::vector<std::string>{at(node, "tls.key") +
                                 "other users may read this key: chmod 600 " +
                                 (node / "tls.key").string()});
}

TEST_CASE("a CA in the place of a certificate is refused", "[tls]") {
  node_folder node{own_authority(), own_authority()};
  CHECK_THAT(
    complaint_of(node),
    StartsWith(at(node, "tls.crt") + "'Test CA' is the certificate of a CA"));
}

TEST_CASE("dates that are over or to come are named, and the clock", "[tls]") {
  auto draft = draft_of("worker-0", {"worker"});
  draft.not_before -= year;
  draft.not_after = std::time(nullptr) - day;
  node_folder old{draft};
  CHECK_THAT(complaint_of(old),
             StartsWith(at(old, "tls.crt") + "expired on " +
                        transport::date_text(draft.not_after)) &&
               ContainsSubstring("renew it (trainer_node pki renew), or set "
                                 "the clock right if that is wrong"));
  draft.not_before = std::time(nullptr) + day;
  draft.not_after = std::time(nullptr) + year;
  node_folder early{draft};
  CHECK_THAT(complaint_of(early),
             StartsWith(at(early, "tls.crt") + "is valid only from " +
                        transport::date_text(draft.not_before)) &&
               ContainsSubstring("set the clock right if that is wrong"));
  auto right = worker_folder();
  auto off = right.terms();
  off.clock = [] {
    return std::time(nullptr) - year;
  };
  CHECK_THAT(complaint_of(off), ContainsSubstring("is valid only from "));
}

TEST_CASE("an authority that has expired is named", "[tls]") {
  auto draft = authority_draft("Old CA");
  draft.not_after = std::time(nullptr) - day;
  auto old = make_holder(draft, nullptr);
  node_folder node{draft_of("worker-0", {"worker"}), old};
  CHECK_THAT(complaint_of(node),
             StartsWith(at(node, "tls.crt") +
                        "the CA 'Old CA' in its chain expired on "));
}

TEST_CASE("a certificate that ends soon is a warning", "[tls]") {
  auto draft = draft_of("worker-0", {"worker"});
  draft.not_after = std::time(nullptr) + 3 * day;
  node_folder node{draft};
  auto lines = tls_identity{node.terms()}.warnings();
  REQUIRE(lines.size() == 1);
  CHECK_THAT(lines.front(), StartsWith(at(node, "tls.crt") + "expires on "));
}

TEST_CASE("a certificate of another CA than ca.crt is refused", "[tls]") {
  auto node = worker_folder();
  node.write("ca.crt", to_pem(other_authority().certificate.get()));
  CHECK_THAT(complaint_of(node),
             StartsWith(at(node, "tls.crt") +
                        "was issued by 'Test CA', which is not in " +
                        (node / "ca.crt").string()));
}

TEST_CASE("a certificate without a role says which URI to add", "[tls]") {
  node_folder node{draft_of("worker-0")};
  CHECK_THAT(complaint_of(node),
             StartsWith(at(node, "tls.crt") + "says no role") &&
               ContainsSubstring("troupe-role:worker"));
}

TEST_CASE("an encrypted key is refused without a question", "[tls]") {
  auto node = worker_folder();
  auto key = app::make_key();
  transport::bio_ptr out{BIO_new(BIO_s_mem())};
  char passphrase[] = "open";
  REQUIRE(PEM_write_bio_PKCS8PrivateKey(out.get(), key.get(), EVP_aes_128_cbc(),
                                        passphrase, 4, nullptr, nullptr) == 1);
  char* text = nullptr;
  auto size = BIO_get_mem_data(out.get(), &text);
  node.write("tls.key", {text, static_cast<size_t>(size)});
  CHECK_THAT(complaint_of(node), StartsWith(at(node, "tls.key") +
                                            "is encrypted with a passphrase"));
}

TEST_CASE("terms that do not belong together are refused", "[tls]") {
  tls_terms none;
  CHECK_THAT(error_line<usage_error>([&] { tls_identity{none}; }),
             ContainsSubstring("--tls-pin"));
  auto node = worker_folder();
  auto half = node.terms();
  half.key.clear();
  CHECK_THAT(error_line<usage_error>([&] { tls_identity{half}; }),
             ContainsSubstring("--tls-key"));
  none.pin = "12:34";
  CHECK_THAT(error_line<usage_error>([&] { tls_identity{none}; }),
             StartsWith("--tls-pin 12:34: must be a SHA-256"));
}

TEST_CASE("files that change are read again, and bad ones are not used",
          "[tls]") {
  auto node = worker_folder();
  tls_identity identity{node.terms()};
  auto first = identity.own()->fingerprint;
  CHECK(identity.refresh().empty());

  auto good = testing::slurp(node / "tls.crt");
  node.write("tls.crt", good.substr(0, 100));
  auto lines = identity.refresh();
  REQUIRE(lines.size() == 1);
  CHECK_THAT(lines.front(),
             StartsWith(at(node, "tls.crt") + "is cut short") &&
               ContainsSubstring("what was read before goes on to be used"));
  CHECK(identity.refresh().empty()); // Told once.
  CHECK(identity.own()->fingerprint == first);

  auto next = make_holder(draft_of("worker-1", {"worker"}), &own_authority());
  node.write("tls.crt", to_pem(next.certificate.get()));
  node.write("tls.key", to_pem(next.key.get()));
  lines = identity.refresh();
  REQUIRE(lines.size() == 1);
  CHECK_THAT(lines.front(), StartsWith(at(node, "tls.crt") + "was read again"));
  CHECK(identity.own()->name == "worker-1");
  std::filesystem::remove(node / "tls.crt");
  CHECK_THAT(identity.refresh().front(), ContainsSubstring("No such file"));
  CHECK(identity.own()->name == "worker-1");
}

TEST_CASE("files may change while others connect", "[tls]") {
  auto server = server_folder();
  auto worker = worker_folder();
  tls_identity accepts{server.terms()};
  tls_identity dials{worker.terms()};
  auto next = make_holder(server_draft(), &own_authority());
  std::atomic<bool> over = false;
  size_t read_again = 0;
  {
    std::jthread changes{[&] {
      const std::string both[] = {testing::slurp(server / "tls.crt"),
                                  to_pem(next.certificate.get())};
      const std::string keys[] = {testing::slurp(server / "tls.key"),
                                  to_pem(next.key.get())};
      for (size_t i = 1; !over; ++i) {
        server.write("tls.key", keys[i % 2]);
        server.write("tls.crt", both[i % 2]);
        read_again += accepts.refresh().size();
      }
    }};
    for (auto i = 0; i < 20; ++i)
      CHECK(meet(dials, accepts).none());
    over = true;
  }
  CHECK(read_again > 0);
}

TEST_CASE("a connection goes on with the certificate that it began with",
          "[tls]") {
  auto server = server_folder();
  auto worker = worker_folder();
  tls_identity accepts{server.terms()};
  tls_identity dials{worker.terms()};
  tls_pair before{dials, accepts};
  auto next =
    make_holder(draft_of("ps-1", {"ps"}, {"localhost"}), &own_authority());
  server.write("tls.crt", to_pem(next.certificate.get()));
  server.write("tls.key", to_pem(next.key.get()));
  REQUIRE(accepts.refresh().size() == 1);
  CHECK(shake_hands(before).none());
  CHECK(before.dialling->peer().name() == "ps-0");
  tls_pair after{dials, accepts};
  CHECK(shake_hands(after).none());
  CHECK(after.dialling->peer().name() == "ps-1");
}
