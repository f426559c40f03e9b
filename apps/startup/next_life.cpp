#include "apps/startup/next_life.hpp"

#include "config/run_folder/train_dir.hpp"
#include "config/text/failure.hpp"
#include "models/storage/lives.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

namespace troupe::app {

namespace {

/// Where this process stands among the nodes that go on.
config::next_life place_in(const run_end& how, const known_nodes& known,
                           const config::run_life& life) {
  auto settings = known.settings();
  auto mine =
    known.rank() ? std::ranges::find(how.next, *known.rank()) : how.next.end();
  if (mine == how.next.end())
    throw run_error(
      "the other nodes took this one for dead, and go on without it; start "
      "it with --join to take part again");
  config::next_life out;
  out.rank = static_cast<uint32_t>(mine - how.next.begin());
  out.peers = static_cast<uint32_t>(how.next.size());
  out.has_led = known.rank() == shard_id{0};
  auto before = this_life();
  out.without_nccl = how.without_nccl || (before && before->without_nccl);
  out.evaluator = settings.cluster.evaluator.value_or(false);
  // Each node goes on with batches of the same size.
  if (settings.training.global_batch_size)
    out.global_batch_size = settings.training.batch_size * out.peers;
  out.before = life;
  out.listens = known.bound();
  // Joiners, which come last, have no shard yet: nobody knows where it will be.
  out.before.nodes.clear();
  for (auto rank : how.next)
    if (rank.value < life.nodes.size())
      out.before.nodes.push_back(life.nodes[rank.value]);
  return out;
}

run_error not_here(const config::next_life& next, const std::string& why) {
  return run_error(
    next.before.directory.string() + ": " + why +
    ": rank 0 of the run is lost, and this node cannot lead it without the "
    "run's files; start the run again where they are, with --resume auto, or "
    "give all nodes a folder that they share");
}

/// Frees the ports for the next life, and hands it the lock, which nobody can
/// take in between. Signals stay blocked: one that comes now is for the next
/// life.
[[noreturn]] void replace_program(const run_in_hand& run, char** arguments) {
  for (const auto& entry : std::filesystem::directory_iterator{"/proc/self/fd"})
    if (auto fd = std::atoi(entry.path().filename().c_str());
        fd > STDERR_FILENO)
      fcntl(fd, F_SETFD, FD_CLOEXEC);
  if (run.lock)
    run.lock->hand_over();
  execv("/proc/self/exe", arguments);
  throw run_error(std::string{"cannot begin anew: "} + std::strerror(errno));
}

} // namespace

bool survives_losses(const config::settings& settings) {
  return config::is_peer(settings) &&
         settings.data.sharding == config::sharding_kind::leased;
}

std::optional<config::next_life> this_life() {
  return config::read_next_life(config::process_environment());
}

std::vector<config::address> nodes_of_this_life() {
  auto next = this_life();
  return next ? next->before.nodes : std::vector<config::address>{};
}

double time_to_come(const config::settings& settings) {
  constexpr double least = 10;
  return std::max(least, settings.cluster.liveness_timeout);
}

// A node without the run's files does not see that its lead waits for the lock,
// so it looks for longer.
double connect_timeout_of(const config::settings& settings) {
  auto next = this_life();
  if (!next)
    return settings.cluster.connect_timeout;
  std::error_code error;
  const auto& folder = next->before.directory;
  auto sees_lock = folder.empty() || std::filesystem::exists(folder, error);
  return time_to_come(settings) +
         (sees_lock ? 0 : patience_with_lock(settings));
}

double patience_with_lock(const config::settings& settings) {
  constexpr double least = 120;
  return std::max(least, settings.cluster.connect_timeout);
}

std::shared_ptr<const config::run_lock>
lock_run(const std::filesystem::path& folder) {
  constexpr double for_others = 2; // s
  auto next = this_life();
  if (!next || next->rank > 0)
    return config::run_lock::acquire(folder);
  auto check = [&](const config::run_lock& lock) {
    if (next->has_led && !lock.was_ours())
      throw run_error("train-dir " + folder.string() +
                      ": another process has led this run since; this one "
                      "leaves it to that");
    if (!next->has_led && !lock.warning().empty())
      throw not_here(*next, lock.warning());
  };
  return config::run_lock::acquire(folder, for_others, check);
}

// The folder may hold a later life than the last one known: it may have begun
// and not come far.
void require_run_is_here(const std::optional<config::next_life>& next) {
  if (!next || next->rank > 0 || next->before.run_id.empty())
    return;
  const auto& folder = next->before.directory;
  if (!config::holds_run(folder))
    throw not_here(*next, "no such run here");
  if (models::last_life(folder) < next->before.number)
    throw not_here(*next, "is of another run");
}

void require_same_run(const config::next_life& next,
                      const std::string& run_id) {
  if (!next.before.run_id.empty() && next.before.run_id != run_id)
    throw not_here(next, "is of another run");
}

void begin_next_life(const run_end& how, const known_nodes& known,
                     const run_in_hand& run, char** arguments) {
  auto life = known.life();
  if (!run.directory.empty())
    life.directory = absolute(run.directory);
  auto place = place_in(how, known, life);
  setenv(config::next_life_variable, config::print(place).c_str(), 1);
  replace_program(run, arguments);
}

void begin_again(const run_in_hand& run, char** arguments) {
  setenv(config::restart_variable, absolute(run.directory).c_str(), 1);
  replace_program(run, arguments);
}

} // namespace troupe::app
