// A worker waits for the process that computes, and notices its end.

#include "actors/user_process/process_line.hpp"
#include "config/text/failure.hpp"
#include "tests/support/error_line.hpp"
#include "tests/support/temporary_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <functional>

using namespace troupe;
using namespace troupe::external;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;
using troupe::test::error_line;

namespace {

using kind = process_frame_kind;

constexpr double patience = 60;

bool never() {
  return false;
}

std::string bytes_of(kind type, uint64_t number, const std::string& body) {
  frame_header head{type, static_cast<uint32_t>(body.size()), number};
  return std::string(reinterpret_cast<const char*>(&head), sizeof head) + body;
}

std::string hello_of(uint64_t samples, const std::string& id,
                     const std::string& gpu = "") {
  return bytes_of(
    kind::hello, frame_version,
    body_writer{}.put(samples).put(uint32_t{5}).put(id).put(gpu).take_bytes());
}

/// A process that connects, sends these bytes, and does something else. It
/// only makes system calls, as a fork of a process with threads may.
class peer {
public:
  peer(
    const std::filesystem::path& where, const std::string& sends,
    const std::function<void()>& then = [] { pause(); })
    : pid_(fork()) {
    if (pid_ != 0)
      return;
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, where.c_str());
    auto line = ::socket(AF_UNIX, SOCK_STREAM, 0);
    const auto* to = reinterpret_cast<const sockaddr*>(&address);
    while (connect(line, to, sizeof address) != 0)
      usleep(1000);
    if (write(line, sends.data(), sends.size()) >= 0)
      then();
    _exit(0);
  }

  ~peer() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

  peer(const peer&) = delete;
  peer& operator=(const peer&) = delete;

  pid_t pid() const { return pid_; }

private:
  pid_t pid_;
};

struct place {
  troupe::testing::temporary_folder folder;
  std::filesystem::path socket = folder / "socket";

  std::string refusal(double seconds = patience) const {
    return error_line<run_error>(
      [&] { wait_for_process(socket, seconds, never); });
  }
};

} // namespace

TEST_CASE("a process that says hello is taken, and its socket is removed") {
  place at;
  peer process{at.socket, hello_of(60, "mnist", "0000:17:00.0") +
                            bytes_of(kind(9), 4, "abc")};
  auto [line, said] = wait_for_process(at.socket, patience, never);
  CHECK(line->pid() == process.pid());
  CHECK(said.samples == 60);
  CHECK(said.leases == 5);
  CHECK(said.dataset == "mnist");
  CHECK(said.gpu == "0000:17:00.0");
  CHECK_FALSE(std::filesystem::exists(at.socket));
  auto next = line->receive();
  REQUIRE(next.has_value());
  CHECK(next->kind == kind(9));
  CHECK(next->number == 4);
  CHECK(next->body == "abc");
  CHECK_FALSE(line->wait_for(0.01));
}

TEST_CASE("the end of a process is noticed while a child has its socket") {
  place at;
  peer process{at.socket, hello_of(60, "x"), [] {
                 if (fork() == 0) {
                   sleep(5);
                   _exit(0);
                 }
               }};
  auto [line, said] = wait_for_process(at.socket, patience, never);
  CHECK_FALSE(line->receive().has_value());
  CHECK(line->why_closed() == "process " + std::to_string(process.pid()) +
                                ", which computes for this worker, has ended");
}

TEST_CASE("a process that closes its connection is noticed") {
  place at;
  peer process{at.socket, hello_of(60, "x"), [] {
                 for (int file = 3; file < 1024; ++file)
                   close(file);
                 pause();
               }};
  auto [line, said] = wait_for_process(at.socket, patience, never);
  CHECK(line->wait_for(patience));
  CHECK_FALSE(line->receive().has_value());
  CHECK_THAT(line->why_closed(), EndsWith("has closed its connection"));
}

TEST_CASE("a process that reads nothing is not waited for forever") {
  int ends[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  transport::descriptor other{ends[1]};
  process_line line{transport::descriptor{ends[0]}, 0.05};
  const std::string body(most_body, 'x');
  constexpr auto more_than_the_buffers = 64;
  for (auto i = 0; i < more_than_the_buffers; ++i)
    line.send(kind::lease, 1, body);
  CHECK_FALSE(line.receive().has_value());
  CHECK(line.why_closed() == "process " + std::to_string(getpid()) +
                               " has not read what it was sent for 0.05 s");
}

TEST_CASE("who does not begin as it should is refused") {
  place at;
  SECTION("another version") {
    peer process{at.socket, bytes_of(kind::hello, 8, "")};
    CHECK_THAT(at.refusal(), EndsWith(" speaks version 8 of the frames, and "
                                      "this program version 7: use the same "
                                      "release of both"));
  }
  SECTION("no hello") {
    peer process{at.socket, bytes_of(kind::gradient, 1, "")};
    CHECK_THAT(at.refusal(), EndsWith(" did not begin with hello"));
  }
  SECTION("a hello of another form") {
    peer process{at.socket, bytes_of(kind::hello, frame_version, "abc")};
    CHECK_THAT(at.refusal(), EndsWith(" sent a hello of another form"));
  }
  SECTION("a large frame") {
    frame_header head{kind::hello, most_body + 1, 1};
    peer process{at.socket,
                 std::string(reinterpret_cast<const char*>(&head), 16)};
    CHECK_THAT(at.refusal(), EndsWith(" sent a frame of 1048577 bytes"));
  }
  CHECK_FALSE(std::filesystem::exists(at.socket));
}

TEST_CASE("a worker does not wait for ever") {
  place at;
  CHECK(at.refusal(0.2) ==
        at.socket.string() +
          ": no process has connected in 0.2 s "
          "(--compute-timeout); start the one that computes");
  CHECK_FALSE(std::filesystem::exists(at.socket));
  auto line = error_line<run_error>(
    [&] { wait_for_process(at.socket, patience, [] { return true; }); });
  CHECK_THAT(line, StartsWith("stopped before a process connected"));
}

TEST_CASE("a socket needs a free place that is not too long") {
  place at;
  std::ofstream{at.socket} << "mine";
  CHECK_THAT(at.refusal(), EndsWith("Address already in use; --compute-socket "
                                    "needs a path that is free"));
  CHECK(std::filesystem::exists(at.socket));
  at.socket = at.folder / std::string(200, 'x');
  CHECK_THAT(at.refusal(), EndsWith("the path of a socket has at most 107 "
                                    "bytes"));
}
