#include "apps/launch/hosts/host_list.hpp"
#include "apps/launch/ssh/parcel.hpp"
#include "apps/launch/ssh/ssh_link.hpp"
#include "config/text/failure.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace troupe;
using namespace troupe::app;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;

namespace {

std::string complaint(std::string_view text) {
  try {
    parse_host_list(text, "hosts");
    return {};
  } catch (const usage_error& why) {
    return why.what();
  }
}

} // namespace

TEST_CASE("a list of addresses alone is a list of hosts", "[launch]") {
  auto all = parse_host_list("10.0.0.1\n10.0.0.2\n", "hosts");
  REQUIRE(all.size() == 2);
  CHECK(all[0].login == "10.0.0.1");
  CHECK(all[0].address == "10.0.0.1");
  CHECK(all[0].slots == 1);
  CHECK(all[1].where == "hosts:2");
}

TEST_CASE("a host has a user, slots and comments beside it", "[launch]") {
  auto all = parse_host_list("# all\r\n\n anna@node-1.x\tslots=4 ; fast\n"
                             "fe80::1%eth0 # slow\n; none\nbob@[::1]",
                             "hosts");
  REQUIRE(all.size() == 3);
  CHECK(all[0].login == "anna@node-1.x");
  CHECK(all[0].address == "node-1.x");
  CHECK(all[0].slots == 4);
  CHECK(all[0].where == "hosts:3");
  CHECK(all[1].login == "fe80::1%eth0");
  CHECK(all[2].login == "bob@::1");
  CHECK(all[2].address == "::1");
}

TEST_CASE("a line that is none of a host is cited", "[launch]") {
  CHECK(complaint("a\nb\na slots=2") ==
        "hosts:3: the host a stands at hosts:1 already: give it slots=N there "
        "instead");
  CHECK(complaint("anna@a\nbob@a").starts_with("hosts:2: the host a stands"));
  CHECK(complaint("\n# nobody\n") ==
        "hosts: names no host: write one name or address a line");
  CHECK(complaint("a slots=0") == "hosts:1: slots=0: must be 1 to 1000");
  CHECK(complaint("a slots=x") == "hosts:1: slots=x: must be a whole number");
  CHECK(complaint("a 4") ==
        "hosts:1: after the host may stand slots=N, and not '4'");
  CHECK(complaint("a slots=1 b") == "hosts:1: unexpected 'b'");
  CHECK(complaint("a:22") == "hosts:1: a:22: a port of ssh belongs into its "
                             "own settings (~/.ssh/config)");
  for (std::string name : {"-oProxyCommand=x", "$(x)", "a'b", "x@-a", "@a"})
    CHECK_THAT(complaint(name),
               StartsWith("hosts:1: ") &&
                 EndsWith("is no host: give a name or an address, maybe with "
                          "USER@ before it"));
}

TEST_CASE("a word is one word for any shell", "[launch]") {
  CHECK(quoted("a b") == "'a b'");
  CHECK(quoted("it's $HOME") == "'it'\\''s $HOME'");
}

TEST_CASE("why ssh has failed is told with what to do", "[launch]") {
  CHECK(explain_ssh({"banner", "a@b: Permission denied (publickey)."}, 255,
                    "a@b") ==
        "a@b: Permission denied (publickey).: give ssh a key that is accepted "
        "there (ssh-copy-id a@b, ssh-add)");
  CHECK(explain_ssh({"tar: x: Cannot write: No space left on device",
                     "tar: Error is not recoverable: exiting now"},
                    1, "b") ==
        "tar: x: Cannot write: No space left on device: make room in "
        "~/.cache/troupe there, or set XDG_CACHE_HOME there");
  CHECK(explain_ssh({"strange"}, 255, "b") ==
        "ssh has ended with status 255: strange");
  CHECK(explain_ssh({}, 137, "b") == "ssh has ended with status 137; try: ssh "
                                     "b");
}
