#include "apps/startup/next_life.hpp"

#include "config/sources/next_life.hpp"
#include "config/text/failure.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>

namespace troupe::app {

namespace {

/// Where this process stands among the nodes that go on.
config::next_life place_in(const config::settings& settings,
                           const run_end& how) {
  const auto& cluster = settings.cluster;
  auto peers = static_cast<uint32_t>(how.next.size());
  config::next_life out;
  out.peers = peers;
  out.rank = peers; // Of the evaluator.
  out.evaluator = cluster.evaluator.value_or(false);
  if (settings.what == config::role::ps) {
    auto mine = std::ranges::find(how.next, shard_id{cluster.rank.value_or(0)});
    if (mine == how.next.end())
      throw run_error("this node was lost to the others, which go on");
    out.rank = static_cast<uint32_t>(mine - how.next.begin());
  }
  // Each node goes on with batches of the same size.
  if (settings.training.global_batch_size)
    out.global_batch_size = settings.training.batch_size * peers;
  return out;
}

/// Ports and locks are for the next life.
void close_all_at_exec() {
  for (const auto& entry : std::filesystem::directory_iterator{"/proc/self/fd"})
    if (auto fd = std::atoi(entry.path().filename().c_str());
        fd > STDERR_FILENO)
      fcntl(fd, F_SETFD, FD_CLOEXEC);
}

} // namespace

bool survives_losses(const config::settings& settings) {
  return config::is_peer(settings) &&
         settings.data.sharding == config::sharding_kind::leased;
}

bool is_next_life() {
  return std::getenv(config::next_life_variable) != nullptr;
}

void begin_next_life(const config::settings& settings, const run_end& how,
                     const std::filesystem::path& directory, char** arguments) {
  auto place = place_in(settings, how);
  place.directory = directory;
  setenv(config::next_life_variable, config::print(place).c_str(), 1);
  sigset_t none;
  sigemptyset(&none);
  pthread_sigmask(SIG_SETMASK, &none, nullptr);
  close_all_at_exec();
  execv("/proc/self/exe", arguments);
  throw run_error(std::string{"cannot begin anew: "} + std::strerror(errno));
}

} // namespace troupe::app
