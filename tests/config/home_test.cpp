#include "config/commands/verb.hpp"
#include "config/sources/launcher.hpp"
#include "config/text/home.hpp"
#include "config/text/value.hpp"
#include "config/values/script.hpp"
#include "config/values/tar_shards.hpp"
#include "tests/config/support.hpp"

#include <catch2/catch_test_macros.hpp>
#include <pwd.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>

using namespace troupe::config;
using namespace troupe::config::test;

namespace {

/// While it lives, HOME is /home/anna.
class at_home {
public:
  at_home() {
    if (const auto* now = std::getenv("HOME"))
      before_ = now;
    setenv("HOME", "/home/anna", 1);
  }

  at_home(const at_home&) = delete;
  at_home& operator=(const at_home&) = delete;

  ~at_home() {
    if (before_)
      setenv("HOME", before_->c_str(), 1);
    else
      unsetenv("HOME");
  }

private:
  std::optional<std::string> before_;
};

const std::vector<std::pair<std::string, std::string>> settings_with_paths{
  {"training.train-dir", ""},   {"training.init", ""},
  {"training.resume", ""},      {"training.compute-socket", ""},
  {"data.data-dir", ""},        {"evaluation.follow", ""},
  {"simulation.faults", ""},    {"cluster.init-method", "file://"},
  {"cluster.rdzv-endpoint", ""}};

} // namespace

TEST_CASE("a leading ~ is the home folder, and no other", "[home]") {
  at_home here;
  CHECK(expand_home("~") == "/home/anna");
  CHECK(expand_home("~/") == "/home/anna/");
  CHECK(expand_home("~/runs/a b") == "/home/anna/runs/a b");
  for (auto path : {"", "runs/~", "./~", "./~/a", "/~", "a~b", "auto"})
    CHECK(expand_home(path) == path);
  setenv("HOME", "/", 1);
  CHECK(expand_home("~/runs") == "/runs");
}

TEST_CASE("a ~ with a name is the home of that user", "[home]") {
  at_home here;
  const auto* root = getpwnam("root");
  REQUIRE(root != nullptr);
  std::string home = root->pw_dir;
  CHECK(expand_home("~root") == home);
  CHECK(expand_home("~root/runs") == home + "/runs");
  CHECK(complaint([] {
          resolved_from({"--train-dir", "~nobody-here/a"});
        }) ==
        "--train-dir ~nobody-here/a: user 'nobody-here' has no home folder; a "
        "file whose name begins with ~ is ./~nobody-here");
}

TEST_CASE("without HOME the password database says where home is", "[home]") {
  at_home here;
  unsetenv("HOME");
  const auto* me = getpwuid(geteuid());
  if (me == nullptr)
    CHECK_THROWS_AS(expand_home("~/a"), bad_value);
  else
    CHECK(expand_home("~/a").starts_with(me->pw_dir));
  setenv("HOME", "", 1);
  if (me != nullptr)
    CHECK(expand_home("~").starts_with(me->pw_dir));
}

TEST_CASE("every path of the settings may begin with ~, whatever its source",
          "[home]") {
  at_home here;
  scratch folder;
  for (const auto& [id, before] : settings_with_paths) {
    INFO(id);
    const auto& key = key_of(id);
    auto typed = before + "~/a/b", meant = before + "/home/anna/a/b";
    auto file = folder.write("a.ini", "[" + key.section + "]\n" + key.name +
                                        " = " + typed + "\n");
    auto value = [&](const resolved& all) {
      return key.get(all.values);
    };
    CHECK(value(resolved_from({"--" + key.flag + "=" + typed})) == meant);
    CHECK(value(resolved_from({"--set", id + "=" + typed})) == meant);
    CHECK(value(resolved_from({"--config", file})) == meant);
    CHECK(value(resolved_from({}, {{key.variable(), typed}})) == meant);
    CHECK(value(resolved_from({"--" + key.flag, before + "./~/a"})) ==
          before + "./~/a");
  }
}

TEST_CASE("a path within a value of the whole cluster is that of each node",
          "[home]") {
  at_home here;
  auto all = resolved_from(
    {"--network=script:~/net.pt", "--dataset=tar(train=~/t.tar,val=~/v.tar)"});
  CHECK(all.values.training.network == "script:~/net.pt");
  CHECK(network_file(all.values.training.network) == "/home/anna/net.pt");
  CHECK(short_name(all.values.training.network) == "net");
  auto shards = parse_tar_shards(all.values.data.dataset);
  CHECK(shards.train == "/home/anna/t.tar");
  CHECK(shards.validation == "/home/anna/v.tar");
  CHECK(complaint([] {
          resolved_from({"--network=weights:~nobody-here/a"});
        }).starts_with("--network weights:~nobody-here/a: user 'nobody-here'"));
}

TEST_CASE("files of a start and of verbs may begin with ~", "[home]") {
  scratch folder;
  folder.write("a.ini", "[training]\nlr = 0.25\n");
  at_home here;
  setenv("HOME", folder.path().c_str(), 1);
  CHECK(resolved_from({"--config=~/a.ini"}).values.training.lr == 0.25);
  CHECK(parse({"--replay", "~/tape-1.pb"}).tape ==
        (folder.path() / "tape-1.pb").string());
  const verb copy{"copy",
                  "",
                  {{"from", "FROM", "what", file_path()}},
                  true,
                  {{"to", "TO", "where", file_path(), "", true}}};
  auto call = read_verb(copy, split("~/a ~/b --to ~/c"));
  REQUIRE(call);
  auto in_home = [&](const char* name) {
    return (folder.path() / name).string();
  };
  CHECK(call->operands == std::vector{in_home("a"), in_home("b")});
  CHECK(call->flags.text("to") == in_home("c"));
  CHECK(complaint([&] {
          read_verb(copy, split("~nobody-here"));
        }).starts_with("~nobody-here: user 'nobody-here' has no home"));
}
