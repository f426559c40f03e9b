// Downloads from a server of the test's own.

#include "apps/data/fetch.hpp"
#include "config/text/failure.hpp"
#include "tests/data/image_files.hpp"
#include "tests/fetch/file_server.hpp"
#include "tests/support/error_line.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <openssl/evp.h>

#include <fstream>
#include <sstream>

using namespace troupe;
using namespace troupe::app;
using namespace troupe::test;
using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

namespace {

std::string content() {
  std::string out(100'000, '\0');
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<char>(i * 7 % 251);
  return out;
}

std::string md5_of(const std::string& text) {
  unsigned char digest[16];
  EVP_Digest(text.data(), text.size(), digest, nullptr, EVP_md5(), nullptr);
  std::string out;
  for (auto x : digest) {
    char hex[3];
    std::snprintf(hex, sizeof hex, "%02x", x);
    out += hex;
  }
  return out;
}

remote_set one_file(const file_server& from) {
  return {"x", from.url(), {{"file", md5_of(content())}}, {}};
}

std::string slurp(const fs::path& path) {
  std::ifstream in{path, std::ios::binary};
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

void ignore(const std::string&, bool) {
  // nop
}

using names = std::vector<std::string>;

} // namespace

TEST_CASE("a file is fetched once") {
  file_server from;
  scratch_folder to;
  from.put("file", content());
  names said;
  auto say = [&](const std::string& line, bool short_lived) {
    if (!short_lived)
      said.push_back(line);
  };
  fetch_set(one_file(from), to.path(), "", say);
  CHECK(slurp(to.path() / "file") == content());
  CHECK_FALSE(fs::exists(to.path() / "file.part"));
  fetch_set(one_file(from), to.path(), "", say);
  CHECK(from.requests() == names{"file"});
  CHECK(said == names{"fetched      file  100000 bytes", "there        file"});
}

TEST_CASE("a download that breaks is gone on with") {
  file_server from;
  scratch_folder to;
  from.put("file", content());
  from.behave({.break_after = 30'000});
  fetch_set(one_file(from), to.path(), "", ignore);
  CHECK(slurp(to.path() / "file") == content());
  CHECK(from.requests() ==
        names{"file", "file from 30000", "file from 60000", "file from 90000"});
}

TEST_CASE("what another start has begun is gone on with") {
  file_server from;
  scratch_folder to;
  from.put("file", content());
  auto begun = content().substr(0, 40'000);
  to.write("file.part", {begun.begin(), begun.end()});
  fetch_set(one_file(from), to.path(), "", ignore);
  CHECK(slurp(to.path() / "file") == content());
  CHECK(from.requests() == names{"file from 40000"});
}

TEST_CASE("a server without ranges gives all of it anew") {
  file_server from;
  scratch_folder to;
  from.put("file", content());
  from.behave({.knows_ranges = false});
  to.write("file.part", text("something else"));
  fetch_set(one_file(from), to.path(), "", ignore);
  CHECK(slurp(to.path() / "file") == content());
}

TEST_CASE("more than there is begins anew") {
  file_server from;
  scratch_folder to;
  from.put("file", content());
  to.write("file.part", bytes(200'000, 1));
  fetch_set(one_file(from), to.path(), "", ignore);
  CHECK(slurp(to.path() / "file") == content());
}

TEST_CASE("a file that is not the published one is refused and removed") {
  file_server from;
  scratch_folder to;
  from.put("file", "<html>gone</html>");
  auto line = error_line<run_error>(
    [&] { fetch_set(one_file(from), to.path(), "", ignore); });
  CHECK_THAT(line,
             ContainsSubstring(
               from.url() + "/file: is not the published file: its MD5 is "));
  CHECK(fs::is_empty(to.path()));
}

TEST_CASE("a file of something else is left as it is") {
  file_server from;
  scratch_folder to;
  from.put("file", content());
  to.write("file", text("years of work"));
  auto line = error_line<usage_error>(
    [&] { fetch_set(one_file(from), to.path(), "", ignore); });
  CHECK_THAT(line, ContainsSubstring("file: is there already, and is not the "
                                     "published file: move it away"));
  CHECK(slurp(to.path() / "file") == "years of work");
  auto archive = gzip(tar_file(
    {member("set/a.bin", text("first")), member("set/b.bin", text("second"))}));
  std::string compressed{archive.begin(), archive.end()};
  from.put("x.tar.gz", compressed);
  to.write("a.bin", text("mine"));
  remote_set what{
    "x", from.url(), {{"x.tar.gz", md5_of(compressed)}}, {"a.bin", "b.bin"}};
  CHECK_THAT(
    error_line<usage_error>([&] { fetch_set(what, to.path(), "", ignore); }),
    ContainsSubstring("a.bin: is there already, and is not the file of "
                      "x.tar.gz"));
  CHECK(slurp(to.path() / "a.bin") == "mine");
  CHECK_FALSE(fs::exists(to.path() / "a.bin.part"));
}

TEST_CASE("a missing file or a silent server fails with one line") {
  file_server from;
  scratch_folder to;
  auto line = error_line<run_error>(
    [&] { fetch_set(one_file(from), to.path(), "", ignore); });
  CHECK(line == from.url() + "/file: The requested URL returned error: 404");
  CHECK(fs::is_empty(to.path()));
  auto nobody = error_line<run_error>([&] {
    fetch_set(one_file(from), to.path(), "http://127.0.0.1:9", ignore);
  });
  CHECK_THAT(nobody, ContainsSubstring("http://127.0.0.1:9/file: "));
  auto scheme = error_line<run_error>(
    [&] { fetch_set(one_file(from), to.path(), "file:///etc/", ignore); });
  CHECK_THAT(scheme, ContainsSubstring("file:///etc/file: "));
}

TEST_CASE("members of an archive are decompressed beside it") {
  file_server from;
  scratch_folder to;
  auto archive = gzip(tar_file({member("set/a.bin", text("first")),
                                member("set/readme", text("not wanted")),
                                member("set/b.bin", text("second"))}));
  std::string compressed{archive.begin(), archive.end()};
  from.put("x.tar.gz", compressed);
  remote_set what{
    "x", from.url(), {{"x.tar.gz", md5_of(compressed)}}, {"a.bin", "b.bin"}};
  fetch_set(what, to.path(), "", ignore);
  CHECK(slurp(to.path() / "a.bin") == "first");
  CHECK(slurp(to.path() / "b.bin") == "second");
  CHECK_FALSE(fs::exists(to.path() / "readme"));
  what.members.push_back("c.bin");
  CHECK_THAT(
    error_line<run_error>([&] { fetch_set(what, to.path(), "", ignore); }),
    ContainsSubstring("x.tar.gz: holds 2 of the 3 files"));
}

TEST_CASE("every set that can be fetched has its sums") {
  for (const auto& each : remote_sets())
    for (const auto& file : each.files)
      CHECK(file.md5.size() == 32);
}
