#include "actors/recording/console.hpp"

#include <catch2/catch_test_macros.hpp>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <sstream>
#include <stdexcept>
#include <string>

using troupe::recording::console;

namespace {

/// A pipe that takes a page, and what was said into it. Its writing end stays
/// open: consoles live as long as the process.
struct narrow_pipe {
  narrow_pipe() {
    std::array<int, 2> both{};
    if (pipe2(both.data(), O_CLOEXEC) != 0)
      throw std::runtime_error("no pipe");
    out = both[0];
    in = both[1];
    fcntl(in, F_SETPIPE_SZ, 4096);
    fcntl(out, F_SETFL, O_NONBLOCK);
  }

  /// All that comes until the console has nothing left to write.
  std::string read_all(console& from) const {
    std::string text;
    for (auto done = false; !done;) {
      done = from.flush(.01);
      std::array<char, 4096> some{};
      for (ssize_t n = 1; n > 0;) {
        n = ::read(out, some.data(), some.size());
        text.append(some.data(), static_cast<size_t>(n > 0 ? n : 0));
      }
    }
    return text;
  }

  int in = -1;
  int out = -1;
};

} // namespace

TEST_CASE("a console writes its lines in their order") {
  narrow_pipe to;
  console it{to.in};
  it.say("one");
  it.write("two");
  it.say(" and three");
  CHECK(to.read_all(it) == "one\ntwo and three\n");
}

TEST_CASE("nobody waits for a console, and it does not grow") {
  narrow_pipe to;
  console it{to.in};
  // From here on its thread writes, and does not take lines in the middle.
  it.say(std::string(20000, 'y'));
  CHECK_FALSE(it.flush(.05));
  std::string line(99, 'x');
  constexpr int said = 20000; // 2 MB
  for (int i = 0; i < said; ++i)
    it.say(line);
  CHECK_FALSE(it.flush(.05));
  auto text = to.read_all(it);
  it.say("last");
  text += to.read_all(it);
  CHECK(text.ends_with(" lines, since nobody read them in time)\nlast\n"));
  auto whole = 0;
  auto left_out = 0;
  std::istringstream lines{text};
  for (std::string one; std::getline(lines, one);)
    if (one == line)
      ++whole;
    else if (one.starts_with("(left out    "))
      left_out += std::stoi(one.substr(13));
  CHECK(whole < 1500);
  CHECK(left_out + whole == said);
}

TEST_CASE("text that is soon stale is left out while something waits") {
  narrow_pipe to;
  console it{to.in};
  it.say(std::string(20000, 'x'));
  it.show("step 1\n");
  it.say("line");
  auto text = to.read_all(it);
  CHECK(text.find("step 1") == std::string::npos);
  CHECK(text.ends_with("x\nline\n"));
  it.show("step 2\n");
  CHECK(to.read_all(it) == "step 2\n");
}

TEST_CASE("a console whose reader is gone is silent") {
  narrow_pipe to;
  console it{to.in};
  std::signal(SIGPIPE, SIG_IGN);
  ::close(to.out);
  it.say("one");
  CHECK(it.flush());
  it.say("two");
  CHECK(it.flush());
}
