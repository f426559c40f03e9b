// Real processes at both ends of a path, one of which is killed at random
// points of transfers.

#include "tests/transport/rig.hpp"

#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

using namespace troupe;
using namespace troupe::test;

namespace {

/// What the other process needs to know to connect.
struct invitation {
  uint16_t port = 0;
  char name[64] = {};
  char token[sizeof transport::opening::secret] = {};

  explicit invitation(const proto::PathOffer& offer)
    : port(static_cast<uint16_t>(offer.stream_port())) {
    offer.shm_name().copy(name, sizeof name - 1);
    offer.token().copy(token, sizeof token);
  }

  invitation() = default;

  proto::PathOffer offer() const {
    proto::PathOffer out;
    out.set_stream_port(port);
    out.set_shm_name(name);
    out.set_token(std::string{token, sizeof token});
    return out;
  }
};

struct pipe_pair {
  pipe_pair() {
    if (pipe(ends) != 0)
      throw transport::system_error("no pipe");
  }

  ~pipe_pair() {
    close(ends[0]);
    close(ends[1]);
  }

  void write(const invitation& invite) {
    if (::write(ends[1], &invite, sizeof invite) != sizeof invite)
      throw transport::system_error("cannot write");
  }

  invitation read() {
    invitation out;
    if (::read(ends[0], &out, sizeof out) != sizeof out)
      throw transport::system_error("cannot read");
    return out;
  }

  int ends[2] = {};
};

/// A process of its own, made before this one has threads.
class other_process {
public:
  explicit other_process(const std::function<void()>& run) {
    auto parent = getpid();
    pid_ = fork();
    if (pid_ != 0)
      return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == parent)
      run();
    _exit(0);
  }

  ~other_process() { kill(); }

  void kill() {
    if (pid_ <= 0)
      return;
    ::kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

private:
  pid_t pid_ = 0;
};

/// Where the other process takes connections.
config::address address_in(const proto::PathOffer& offer) {
  return {"127.0.0.1", static_cast<uint16_t>(offer.stream_port())};
}

/// Pushes gradients that follow from their numbers, into memory that is used
/// again, until it is killed.
void push_for_ever(const std::string& kind, payload_shape shape,
                   pipe_pair& line) {
  auto offer = line.read().offer();
  rig here{"inproc", shape};
  auto gateway = here.make_gateway();
  auto link = here.tie(path_choice{kind, {here.memory}, {}}.connect(
                         offer, address_in(offer), {shape}),
                       gateway);
  payload_pool gradients{shape.bytes(), kind == "shm"
                                          ? payload_memory_ptr{here.memory}
                                          : heap_memory()};
  caf::scoped_actor self{here.system()};
  for (uint64_t i = 1;; ++i) {
    auto memory = gradients.take_block();
    auto* data = memory.get();
    fill({data, static_cast<size_t>(shape.bytes())}, i);
    self
      ->request(link, caf::infinite, push_atom_v, numbered(i),
                payload{shape, std::move(memory), data})
      .receive([](const release_header&, const payload&) {},
               [](const caf::error&) { _exit(1); });
  }
}

} // namespace

TEST_CASE("a worker that is killed at any point leaves whole gradients") {
  auto kind = GENERATE(as<std::string>{}, "stream", "shm");
  auto seed = GENERATE(Catch::Generators::range(1u, 11u));
  INFO(kind << ", seed " << seed);
  std::mt19937_64 random{seed};
  payload_shape shape{element_type::float32,
                      std::uniform_int_distribution<uint64_t>{
                        1, seed % 2 ? 12'000'000u : 100'000u}(random)};
  auto files = open_files();
  {
    pipe_pair line;
    other_process worker{[&] {
      push_for_ever(kind, shape, line);
    }};
    rig it{kind, shape};
    it.log->keeps = true;
    auto before = it.actors();
    line.write(invitation{it.invite(it.make_gateway())});
    REQUIRE(eventually([&] { return it.log->count() >= 3; }));
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 30'000));
    worker.kill();
    // Its gateway would go with the connection.
    caf::anon_send_exit(it.gateway, caf::exit_reason::kill);
    CHECK(eventually([&] { return it.actors() <= before; }));
    std::lock_guard guard{it.log->mutex};
    CHECK(it.log->damaged == 0);
    // What the server holds is the dead worker's memory, perhaps.
    REQUIRE(!it.log->held.empty());
    for (size_t i = 0; i < it.log->held.size(); ++i)
      CHECK(is_seeded(it.log->held[i], it.log->numbers[i]));
  }
  CHECK(eventually([&] { return open_files() == files; }));
}

TEST_CASE("a server that is killed at any point leaves whole weights") {
  auto kind = GENERATE(as<std::string>{}, "stream", "shm");
  auto seed = GENERATE(Catch::Generators::range(1u, 11u));
  INFO(kind << ", seed " << seed);
  std::mt19937_64 random{seed};
  payload_shape shape{element_type::float32,
                      std::uniform_int_distribution<uint64_t>{
                        1, seed % 2 ? 12'000'000u : 100'000u}(random)};
  auto files = open_files();
  {
    pipe_pair line;
    other_process server{[&] {
      rig there{kind, shape};
      line.write(invitation{there.invite(there.make_gateway())});
      pause();
    }};
    auto offer = line.read().offer();
    rig it{"inproc", shape};
    auto before = it.actors();
    auto gateway = it.make_gateway();
    auto link = it.tie(path_choice{kind, {it.memory}, {}}.connect(
                         offer, address_in(offer), {shape}),
                       gateway);
    std::thread killer{[&, after = random() % 60'000] {
      std::this_thread::sleep_for(std::chrono::microseconds(20'000 + after));
      server.kill();
    }};
    caf::scoped_actor self{it.system()};
    std::optional<caf::error> end;
    payload last;
    uint64_t number = 0;
    while (!end)
      self
        ->request(link, long_enough, push_atom_v, numbered(number + 1),
                  seeded(shape, number + 1))
        .receive(
          [&](const release_header&, const payload& weights) {
            last = weights;
            ++number;
          },
          [&](const caf::error& why) { end = why; });
    killer.join();
    CHECK(*end == errc::peer_lost);
    if (number > 0)
      CHECK(is_seeded(last, number));
    caf::anon_send_exit(gateway, caf::exit_reason::kill);
    // One is ours.
    CHECK(eventually([&] { return it.actors() <= before + 1; }));
  }
  CHECK(eventually([&] { return open_files() == files; }));
}
