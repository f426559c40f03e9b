#include "config/schema/keys.hpp"
#include "config/sources/ini.hpp"
#include "tests/config/support.hpp"

#include <catch2/catch_test_macros.hpp>

#include <random>

using namespace troupe;
using namespace troupe::config;
using namespace troupe::config::test;

namespace {

/// "section.key=value" per entry.
std::vector<std::string> read(const std::string& text) {
  std::vector<std::string> result;
  for (const auto& entry : parse_ini(text, "a.ini"))
    result.push_back(entry.section + "." + entry.key + "=" + entry.value);
  return result;
}

std::string ini_complaint(const std::string& text) {
  return complaint([&] { parse_ini(text, "a.ini"); });
}

std::string value_of(const std::string& text) {
  return parse_ini("[a]\nk = " + text + "\n", "a.ini").at(0).value;
}

using lines = std::vector<std::string>;

} // namespace

TEST_CASE("sections, keys, values and comments are told apart", "[ini]") {
  CHECK(read("# top\n[a]\nx = 1 ; one\n  y=2\n; more\n\n[b] # tail\nx = 3") ==
        lines{"a.x=1", "a.y=2", "b.x=3"});
  CHECK(read("") == lines{});
  CHECK(read("[a]\n") == lines{});
}

TEST_CASE("lines are counted from 1", "[ini]") {
  auto entries = parse_ini("[a]\nx = 1\n\n; c\ny = 2\n", "a.ini");
  CHECK(entries.at(0).line == 2);
  CHECK(entries.at(1).line == 5);
}

TEST_CASE("values are taken verbatim", "[ini]") {
  CHECK(value_of("gamma(mean=1,cv=0.1)") == "gamma(mean=1,cv=0.1)");
  CHECK(value_of("gamma(mean=1,cv=0.1) ; why") == "gamma(mean=1,cv=0.1)");
  CHECK(value_of("a;b#c") == "a;b#c");
  CHECK(value_of("C:\\new") == "C:\\new");
  CHECK(value_of("a b\tc") == "a b\tc");
  CHECK(value_of("# nothing") == "");
  CHECK(value_of("") == "");
}

TEST_CASE("quotes keep blanks and comment signs", "[ini]") {
  CHECK(value_of("\" a ; b # c \" ; why") == " a ; b # c ");
  CHECK(value_of(R"("say \"hi\" \\ \n")") == R"(say "hi" \ \n)");
  CHECK(value_of("\"\"") == "");
}

TEST_CASE("what ini_value writes reads back", "[ini]") {
  for (std::string value :
       {"", "plain", " x", "x ", "a ; b", "a;b", "#", ";x", "\"", "\"q\"", "\\",
        "a \"b\" ; \\", "x # y", "\xc3\xa4", "[s]", "k = v"})
    CHECK(value_of(ini_value(value)) == value);
}

TEST_CASE("CRLF and a byte order mark are tolerated", "[ini]") {
  CHECK(read("\xef\xbb\xbf[a]\r\nx = 1 ; one\r\n\r\ny = 2\r\n") ==
        lines{"a.x=1", "a.y=2"});
}

TEST_CASE("a section may be opened again", "[ini]") {
  CHECK(read("[a]\nx = 1\n[b]\n[a]\ny = 2\n") == lines{"a.x=1", "a.y=2"});
}

TEST_CASE("what is no INI is refused with file and line", "[ini]") {
  CHECK(ini_complaint("[a]\nbatchsize 3\n") ==
        "a.ini:2: 'batchsize 3' must be key = value");
  CHECK(ini_complaint("[a]\n= 3\n") == "a.ini:2: '= 3' must be key = value");
  CHECK(ini_complaint("[a\n") == "a.ini:1: '[a' must be [section]");
  CHECK(ini_complaint("[]\n") == "a.ini:1: '[]' must be [section]");
  CHECK(ini_complaint("[a] b\n") == "a.ini:1: '[a] b' must be [section]");
  CHECK(ini_complaint("[a]\nx = 1\n[b]\nx = 1\n[a]\nx = 2\n") ==
        "a.ini:6: 'x' in [a] is given again; first in line 2");
  CHECK(ini_complaint("[a]\nx = \"1\n") == "a.ini:2: no closing quote in \"1");
  CHECK(ini_complaint("[a]\nx = \"1\" 2\n") ==
        "a.ini:2: text after the closing quote in \"1\" 2");
  CHECK(ini_complaint(std::string("[a]\nx = \0\n", 10)) ==
        "a.ini:2: control character in 'x = \\x00'");
  CHECK(ini_complaint("[a]\nx ; y = 3\n") ==
        "a.ini:2: 'x ; y = 3' must be key = value");
}

TEST_CASE("an unknown key names file, line and the nearest key", "[ini]") {
  scratch folder;
  auto said_of = [&](const std::string& text) {
    auto file = folder.write("cluster.ini", text);
    auto line = complaint([&] { from_file(file); });
    auto at = line.find("cluster.ini");
    return at == std::string::npos ? line : line.substr(at);
  };
  CHECK(said_of("[training]\nlr = 1\nbatchsize = 3\n") ==
        "cluster.ini:3: unknown key 'batchsize' in [training]; did you mean "
        "'batch-size'?");
  CHECK(said_of("[training]\nstaleness = 3\n") ==
        "cluster.ini:2: 'staleness' belongs in [policy], not in [training]");
  CHECK(said_of("lr = 3\n") == "cluster.ini:1: 'lr' belongs in [training]");
  CHECK(said_of("[polcy]\nname2 = ssp\n") ==
        "cluster.ini:2: unknown section [polcy]; did you mean 'policy'?");
}

TEST_CASE("a file that cannot be is refused by name", "[ini]") {
  scratch folder;
  auto said_of = [](const std::filesystem::path& file) {
    return complaint([&] { read_ini(file); });
  };
  auto absent = folder.path() / "absent.ini";
  CHECK(said_of(absent) ==
        absent.string() + ": cannot be read: No such file or directory");
  CHECK(said_of(folder.path()) ==
        folder.path().string() + ": is a folder, not a file of settings");
  auto huge = folder.write("huge.ini", std::string(largest_ini + 1, '\n'));
  CHECK(said_of(huge) == huge + ": larger than 1 MiB: no file of settings");
  CHECK(said_of("/dev/zero") ==
        "/dev/zero: cannot be read: it is not a regular file");
  auto large = folder.write("large.ini", std::string(largest_ini, '\n'));
  CHECK(said_of(large) == "");
  auto closed = folder.write("closed.ini", "");
  std::filesystem::permissions(closed, std::filesystem::perms::none);
  if (::geteuid() != 0)
    CHECK(said_of(closed) == closed + ": cannot be read: Permission denied");
}

TEST_CASE("whatever bytes a file has, it is read or refused", "[ini][fuzz]") {
  std::mt19937 random{20261121};
  auto below = [&](size_t n) {
    return random() % n;
  };
  const std::string alphabet = "[]=;#\"\\\n\r\t ab-_.,()0";
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (auto n = below(60); n > 0; --n)
      text += below(8) == 0 ? static_cast<char>(below(256))
                            : alphabet[below(alphabet.size())];
    try {
      for (const auto& entry : parse_ini(text, "a.ini"))
        REQUIRE(!entry.key.empty());
    } catch (const usage_error& error) {
      REQUIRE(std::string{error.what()}.starts_with("a.ini:"));
    }
  }
}

TEST_CASE("whatever is done to a good file, it is read or refused",
          "[ini][fuzz]") {
  scratch folder;
  std::string good;
  for (const auto& section : all_sections()) {
    good += "[" + section + "]\n";
    for (const auto& each : all_keys())
      if (each.section == section)
        good += each.name + " = " + ini_value(each.default_text()) + "\n";
  }
  std::mt19937 random{7};
  for (int round = 0; round < 300; ++round) {
    auto text = good;
    for (int i = 0; i < 3; ++i)
      text[random() % text.size()] = static_cast<char>(random() % 256);
    auto file = folder.write("a.ini", text);
    try {
      resolve(from_file(file));
    } catch (const usage_error& error) {
      REQUIRE(std::string{error.what()}.starts_with(file + ":"));
    }
  }
  CHECK_NOTHROW(resolve(from_file(folder.write("a.ini", good))));
}
