// What is wrong with a certificate, between processes: the node that has it and
// the node that is shown it say each in one line what and what to do.

#include "tests/process/trusted_cluster.hpp"
#include "tests/tls/nodes.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <sys/stat.h>

#include <algorithm>
#include <regex>
#include <string>
#include <utility>
#include <vector>

using namespace troupe::testing;
using namespace troupe::test;

namespace {

flags folder_of(const node_folder& node) {
  return {"--tls-dir", node.terms().cert.parent_path().string()};
}

/// For a node whose clock is off by so many seconds.
child_options with_clock(std::time_t off) {
  child_options out;
  if (off != 0)
    out.environment = {{"LD_PRELOAD", TROUPE_WRONG_CLOCK},
                       {"WRONG_CLOCK", std::to_string(off)}};
  return out;
}

child start_node(process_fixture& on, const std::string& role,
                 const flags& more, std::time_t clock = 0) {
  auto all = flags{"--role", role, "--port", on.port()} + impatient + more;
  if (role == "ps")
    all.insert(all.end(), {"--train-dir", on.run().string()});
  return on.start(role, all, with_clock(clock));
}

void check_words(const child& who, const std::string& line) {
  INFO("wanted: " << line << '\n' << who.report());
  CHECK(std::regex_search(words_of(who), std::regex{line}));
}

/// Both kinds of nodes end at once with a line about their own file.
void check_own_file(const std::string& line, const node_folder& node,
                    std::time_t clock = 0) {
  process_fixture on;
  std::vector<child> all;
  for (const auto* role : {"ps", "worker"})
    all.push_back(start_node(on, role, folder_of(node), clock));
  for (auto& one : all) {
    check_end(one, 1);
    check_words(one, line);
    CHECK(std::ranges::count(one.err(), '\n') == 1);
  }
}

auto with_dates(troupe::app::certificate_draft of, std::time_t from,
                std::time_t until) {
  of.not_before = std::time(nullptr) + from;
  of.not_after = std::time(nullptr) + until;
  return of;
}

constexpr const char* clock_says =
  ", and this machine's clock says \\d{4}-\\d\\d-\\d\\d \\d\\d:\\d\\d UTC";

} // namespace

TEST_CASE("a node whose own files are wrong says which and what to do") {
  auto both = draft_of("node", {"ps", "worker"}, {"127.0.0.1"});
  node_folder node{both};
  auto whole = slurp(node / "tls.crt");
  SECTION("expired") {
    check_own_file(std::string{"tls\\.crt: expired on .*"} + clock_says +
                     ": renew it \\(trainer_node pki renew\\)",
                   node_folder{with_dates(both, -2 * day, -day)});
  }
  SECTION("not yet valid") {
    check_own_file(std::string{"tls\\.crt: is valid only from .*"} +
                     clock_says + ": wait until then",
                   node_folder{with_dates(both, day, 2 * day)});
  }
  SECTION("a clock that is wrong by a year") {
    check_own_file(std::string{"tls\\.crt: expired on .*"} + clock_says +
                     ": renew it .*, or set the clock right",
                   node, year);
    check_own_file(std::string{"tls\\.crt: is valid only from .*"} +
                     clock_says + ": wait .*, or set the clock right",
                   node, -year);
  }
  SECTION("another CA") {
    node.write("ca.crt", to_pem(other_authority().certificate.get()));
    check_own_file("tls\\.crt: was issued by 'Test CA', which is not in "
                   ".*/ca\\.crt: take both files from one CA",
                   node);
  }
  SECTION("truncated") {
    node.write("tls.crt", whole.substr(0, whole.size() / 2));
    check_own_file("tls\\.crt: is cut short: .* copy it again", node);
  }
  SECTION("the key of another") {
    node.write("tls.key", slurp(node_folder{both} / "tls.key"));
    check_own_file("tls\\.key: is not the key of .*/tls\\.crt: take both files "
                   "from one folder",
                   node);
  }
  SECTION("a CA in the place of a certificate") {
    check_own_file("tls\\.crt: 'Test CA' is the certificate of a CA.*: name "
                   "the certificate of this node",
                   node_folder{own_authority(), own_authority()});
  }
  SECTION("no role") {
    check_own_file("tls\\.crt: says no role: .*trainer_node pki issue --role",
                   node_folder{draft_of("node", {}, {"127.0.0.1"})});
  }
}

TEST_CASE("a node that shows a wrong certificate, or is shown one, is told so, "
          "and so is the other") {
  process_fixture on;
  // Valid in the years of all clocks here.
  node_folder server{with_dates(server_draft(), -2 * year, 2 * year)};
  auto ps = on.listening_server(folder_of(server) +
                                flags{"--workers", "1", "--epochs", "1"});
  std::vector<std::pair<child, std::string>> all;
  auto meet = [&](const std::string& line, const flags& more,
                  std::time_t clock = 0) {
    all.emplace_back(start_node(on, "worker", more, clock), line);
  };
  auto check_all = [&] {
    for (auto& [one, line] : all) {
      check_end(one, 1);
      check_words(one, line);
      CHECK(std::ranges::count(one.err(), '\n') == 1);
    }
    all.clear();
  };
  const std::string told = "the other end says that our certificate .*tls\\.crt"
                           " \\('[a-z0-9-]+' of 'Test CA'\\) has expired or is "
                           "not yet valid: it is valid from .* until .*";
  auto show_instead = [&](const troupe::app::certificate_draft& draft) {
    auto next = make_holder(draft, &own_authority());
    server.write("tls.key", to_pem(next.key.get()));
    server.write("tls.crt", to_pem(next.certificate.get()));
  };

  auto token = (on.home() / "token").string();
  spill(token, "0123456789abcdef0123");
  node_folder old{with_dates(draft_of("old", {"worker"}), -2 * year, -day)};
  meet(told + clock_says, folder_of(old), -year);
  node_folder early{with_dates(draft_of("early", {"worker"}), day, 2 * year)};
  meet(told + clock_says, folder_of(early), year);
  node_folder stranger{draft_of("stranger", {"worker"}), other_authority()};
  meet("the other end's certificate, 'ps-0' of 'Test CA', was issued by 'Test "
       "CA', which is not in .*ca\\.crt: issue it with the CA of that file",
       folder_of(stranger));
  node_folder other{draft_of("other", {"worker"}), other_authority()};
  other.write("ca.crt", slurp(other / "ca.crt") + slurp(server / "ca.crt"));
  meet("the other end does not know the CA of our certificate .*tls\\.crt.*: "
       "issue it with the CA that the other end has",
       folder_of(other));
  meet("this node showed no certificate, and one is needed: give it a folder",
       {"--tls-ca", (server / "ca.crt").string(), "--token-file", token});
  meet("the other end speaks TLS|does not speak TLS", {});
  check_all();
  for (const auto* line :
       {"'old' of 'Test CA', expired on .*: renew it",
        "'early' of 'Test CA', is valid only from .*, unless one of the two "
        "clocks is wrong",
        "the other end does not know the CA of our certificate .*tls\\.crt",
        "'other' of 'Other CA', was issued by 'Other CA', which is not in "
        ".*ca\\.crt",
        "the other end showed no certificate, and one is needed",
        "the other end does not speak TLS"})
    check_words(ps, std::string{"sent away 127\\.0\\.0\\.1: .*"} + line);

  INFO("a clock that is wrong by a year");
  show_instead(server_draft());
  node_folder right{with_dates(worker_draft(), -2 * year, 2 * year)};
  meet(std::string{"the other end's certificate, 'ps-0' of 'Test CA', expired "
                   "on .*"} +
         clock_says + ": renew it .*, unless one of the two clocks is wrong",
       folder_of(right), year);
  meet(std::string{"the other end's certificate, 'ps-0' of 'Test CA', is valid "
                   "only from .*"} +
         clock_says,
       folder_of(right), -year);
  check_all();
  check_words(ps, told + clock_says + ", so one of the two clocks is wrong");

  INFO("another host");
  show_instead(draft_of("elsewhere", {"ps"}, {"node9", "10.9.8.7"}));
  meet("is for node9, 10\\.9\\.8\\.7, and '127\\.0\\.0\\.1' was dialled: dial "
       "a name that it has, or issue it again with --host 127\\.0\\.0\\.1",
       folder_of(right));
  check_all();
  check_words(ps, "the other end has dialled another name than those of our "
                  "certificate .*tls\\.crt");

  INFO("another role");
  show_instead(draft_of("no-server", {"worker"}, {"127.0.0.1"}));
  meet("'no-server' of 'Test CA', is not made for servers: its extended key "
       "usage needs serverAuth: issue it again with --role ps",
       folder_of(right));
  check_all();
  check_words(ps, "the other end does not accept the role of our certificate "
                  ".*tls\\.crt");
  node_folder watches{draft_of("watches", {"evaluator"})};
  show_instead(server_draft());
  auto evaluator = start_node(on, "worker", folder_of(watches));
  check_end(evaluator, 2);
  check_words(evaluator,
              "its certificate 'watches' is not for the role worker: "
              "issue one with --role worker");

  INFO("a chain with an intermediate, and a key that others may read");
  auto between = make_holder(authority_draft("Between"), &own_authority());
  node_folder chained{worker_draft(), between};
  chained.write("tls.crt",
                slurp(chained / "tls.crt") + to_pem(between.certificate.get()));
  chained.write("ca.crt", slurp(server / "ca.crt"));
  ::chmod((chained / "tls.key").c_str(), 0644);
  auto worker = start_node(on, "worker", folder_of(chained));
  check_end(worker, 0);
  check_end(ps, 0);
  check_words(worker, "tls\\.key: other users may read this key: chmod 600 .*");
}

TEST_CASE("a token that is wrong, missing or empty is told of at both ends") {
  trusted_cluster it;
  auto& on = it.on;
  auto server = it.own("ps-0");
  flags ca{"--tls-ca", it.folder("ca") + "/ca.crt"};
  auto token = it.token("token", "0123456789abcdef0123");
  for (const auto& [name, text, line] :
       {std::tuple{"empty", "",
                   "--token-file .*empty: has 0 characters, and 16"},
        std::tuple{"short", "0123",
                   "--token-file .*short: has 4 characters, and 16"}}) {
    for (const auto* role : {"ps", "worker"}) {
      auto files = std::string{role} == "ps" ? server : ca;
      auto node = start_node(on, role, files + it.token(name, text));
      check_end(node, 1);
      check_words(node, std::string{line} + ".*openssl rand -hex 32");
    }
  }
  auto nowhere =
    start_node(on, "worker", ca + flags{"--token-file", it.folder("nothing")});
  check_end(nowhere, 1);
  check_words(nowhere,
              "--token-file .*nothing: cannot be read: No such file or "
              "directory");
  auto ps = on.listening_server(server + token +
                                flags{"--workers", "1", "--epochs", "1"});
  const std::string why = "the token is not that of the run: give the same "
                          "--token-file as the node there";
  auto other =
    start_node(on, "worker", ca + it.token("other", "0123456789abcdef9999"));
  auto without = start_node(on, "worker", ca);
  check_end(other, 1);
  check_end(without, 2);
  check_words(other, why);
  check_words(without, "--tls-ca .*: does not say who this node is: give "
                       "--tls-dir, or --token-file with the token of the run");
  auto right = start_node(on, "worker", ca + token);
  check_end(right, 0);
  check_end(ps, 0);
  check_words(ps, "sent away 127\\.0\\.0\\.1: " + why);
}
