#include "config/sources/ini.hpp"
#include "config/text/input_file.hpp"
#include "config/values/faults.hpp"
#include "tests/config/support.hpp"

#include <catch2/catch_test_macros.hpp>
#include <sys/stat.h>

#include <array>

using namespace troupe;
using namespace troupe::config;
using namespace troupe::config::test;

namespace {

std::string reason_of(const std::filesystem::path& path) {
  try {
    input_file file{path};
    return "";
  } catch (const unreadable& why) {
    return why.what();
  }
}

std::string pipe_in(const scratch& folder, const std::string& name) {
  auto path = (folder.path() / name).string();
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  return path;
}

} // namespace

TEST_CASE("only regular files are opened, and nothing is waited for",
          "[input_file]") {
  scratch folder;
  for (const auto& path : {pipe_in(folder, "pipe"), std::string{"/dev/zero"},
                           std::string{"/dev/null"}, folder.path().string()}) {
    INFO(path);
    CHECK(reason_of(path) == "it is not a regular file");
  }
  CHECK(reason_of(folder.path() / "absent") == "No such file or directory");
  auto file = folder.write("file", "text");
  CHECK(reason_of(file) == "");
  auto link = folder.path() / "link";
  std::filesystem::create_symlink(file, link);
  CHECK(reason_of(link) == "");
}

TEST_CASE("a file is read from any place, as far as it goes", "[input_file]") {
  scratch folder;
  input_file file{folder.write("file", "0123456789")};
  CHECK(file.size() == 10);
  std::array<char, 4> to{};
  auto read = [&](uint64_t position) {
    auto count = file.read(position, std::as_writable_bytes(std::span{to}));
    return std::string{to.data(), count};
  };
  CHECK(read(0) == "0123");
  CHECK(read(8) == "89");
  CHECK(read(10) == "");
  CHECK(read(99) == "");
  CHECK(read_text(folder.path() / "file") == "0123456789");
  CHECK(read_text(folder.path() / "file", 3) == "012");
}

TEST_CASE("a pipe in the place of settings or faults is refused in a line",
          "[input_file]") {
  scratch folder;
  auto pipe = pipe_in(folder, "pipe");
  CHECK(complaint([&] { read_ini(pipe); }) ==
        pipe + ": cannot be read: it is not a regular file");
  CHECK(complaint([&] { read_faults(pipe, 4); }) ==
        "faults " + pipe + ": cannot be read: it is not a regular file");
}
