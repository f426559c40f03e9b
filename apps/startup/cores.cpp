#include "apps/startup/cores.hpp"

#include "config/patterns/placement.hpp"
#include "config/schema/policies.hpp"
#include "config/sources/launcher_table.hpp"
#include "config/text/value.hpp"
#include "config/values/address.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace troupe::app {

namespace {

namespace fs = std::filesystem;

std::optional<uint32_t> number_in(const std::string& text) try {
  return config::parse<uint32_t>(text);
} catch (const config::bad_value&) {
  return std::nullopt;
}

std::string first_line(const fs::path& file) {
  std::ifstream in{file};
  std::string line;
  std::getline(in, line);
  return line;
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> out;
  std::istringstream in{text};
  for (std::string part; std::getline(in, part, at);)
    out.push_back(part);
  return out;
}

// -- control groups -----------------------------------------------------------

/// The number of cores in "0-3,8"; nothing if that is empty or not such a list.
std::optional<uint32_t> count_cores(const std::string& list) {
  uint32_t out = 0;
  for (const auto& part : split(list, ',')) {
    auto dash = part.find('-');
    auto first = number_in(part.substr(0, dash));
    auto last = dash == part.npos ? first : number_in(part.substr(dash + 1));
    if (!first || !last || *last < *first)
      return std::nullopt;
    out += *last - *first + 1;
  }
  return out == 0 ? std::nullopt : std::optional{out};
}

/// A group and the groups around it, from the inside. If a container does not
/// see the path that the kernel names, its group is the mounted folder itself.
std::vector<fs::path> groups(const fs::path& mount, const std::string& path) {
  std::vector<fs::path> out;
  auto relative = fs::path{path}.relative_path();
  for (; !relative.empty(); relative = relative.parent_path())
    out.push_back(mount / relative);
  out.push_back(mount);
  return out;
}

void take_quota(cgroup_limits& out, double time, double period) {
  if (time > 0 && period > 0)
    out.quota = std::min(out.quota.value_or(time / period), time / period);
}

/// "max 100000", "150000 100000"
void take_cpu_max(cgroup_limits& out, const fs::path& group) {
  std::istringstream in{first_line(group / "cpu.max")};
  double time = 0, period = 0;
  if (in >> time >> period)
    take_quota(out, time, period);
}

/// A quota of -1 means no limit.
void take_cfs_quota(cgroup_limits& out, const fs::path& group) {
  double time = 0, period = 0;
  std::istringstream{first_line(group / "cpu.cfs_quota_us")} >> time;
  std::istringstream{first_line(group / "cpu.cfs_period_us")} >> period;
  take_quota(out, time, period);
}

/// Without a limit, version 2 says "max", version 1 nearly 2^63.
void take_memory(cgroup_limits& out, const fs::path& file) {
  std::istringstream in{first_line(file)};
  uint64_t bytes = 0;
  if (in >> bytes && bytes < (uint64_t{1} << 60))
    out.memory = std::min(out.memory.value_or(bytes), bytes);
}

void take_cpuset(cgroup_limits& out, const std::vector<fs::path>& all,
                 const char* effective, const char* configured) {
  for (const auto& group : all)
    for (const auto* name : {effective, configured})
      if (!out.cores)
        out.cores = count_cores(first_line(group / name));
}

void take_group(cgroup_limits& out, const fs::path& root,
                const std::string& controllers, const std::string& path) {
  auto names = split(controllers, ',');
  auto has = [&](const char* name) {
    return std::ranges::find(names, name) != names.end();
  };
  if (controllers.empty()) {
    auto all = groups(root, path);
    for (const auto& group : all) {
      take_cpu_max(out, group);
      take_memory(out, group / "memory.max");
    }
    take_cpuset(out, all, "cpuset.cpus.effective", "cpuset.cpus");
    return;
  }
  for (const auto& folder : {controllers, std::string{has("cpu") ? "cpu" : ""}})
    if (has("cpu") && !folder.empty())
      for (const auto& group : groups(root / folder, path))
        take_cfs_quota(out, group);
  if (has("memory"))
    for (const auto& group : groups(root / "memory", path))
      take_memory(out, group / "memory.limit_in_bytes");
  if (has("cpuset"))
    take_cpuset(out, groups(root / controllers, path), "cpuset.effective_cpus",
                "cpuset.cpus");
}

// -- sharing ------------------------------------------------------------------

uint32_t allowed_by_kernel() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0)
    return UINT32_MAX; // More cores than the set can hold.
  return static_cast<uint32_t>(CPU_COUNT(&set));
}

bool meets_on_loopback(const config::settings& settings) {
  return settings.what != config::role::simulate &&
         config::is_loopback(settings.cluster.host);
}

/// Processes or workers that compute on these cores.
uint32_t sharers(const config::settings& settings, const cpu_facts& cpus) {
  auto workers = settings.cluster.workers;
  if (settings.what == config::role::simulate)
    return workers * std::max(1u, cpus.launched);
  // One may be the parameter server. One alone may have started workers itself.
  if (cpus.launched > 1)
    return std::min(cpus.launched, workers);
  return meets_on_loopback(settings) ? workers : 1;
}

/// The cores' worth of time of this process and those that share them with it.
uint32_t usable(const cpu_facts& cpus) {
  auto cores = cpus.cores;
  if (cpus.quota)
    cores = std::min(cores, static_cast<uint32_t>(std::max(1.0, *cpus.quota)));
  return cpus.bound ? cores : std::min(cores, cpus.allowed);
}

/// The threads of this process that compute at the same time, but for those
/// that `sharers` counts.
uint32_t threads_of_a_process(const config::settings& settings) {
  const auto& parallel = settings.parallel;
  if (parallel.mode == config::parallel_mode::pipeline) {
    auto rules = config::parse_placement(settings.training.placement).size();
    return std::max(1u, parallel.stages.value_or(static_cast<uint32_t>(rules)));
  }
  // The server has the stages of all workers, wherever the workers are.
  auto is_host = parallel.mode == config::parallel_mode::remote_forward &&
                 settings.what == config::role::ps;
  return is_host && !meets_on_loopback(settings) ? settings.cluster.workers
                                                 : parallel.replicas;
}

} // namespace

int threads_share(const config::settings& settings, const cpu_facts& cpus) {
  if (settings.training.threads != 0)
    return static_cast<int>(settings.training.threads);
  if (config::is_virtual(settings))
    return 1; // Results of sums depend on it.
  auto share = std::min(usable(cpus) / sharers(settings, cpus), cpus.allowed) /
               threads_of_a_process(settings);
  return static_cast<int>(std::max(1u, share));
}

uint32_t lanes_share(const config::settings& settings, const cpu_facts& cpus) {
  constexpr uint32_t most = 8; // These read memory as fast as it can be read.
  auto elsewhere =
    config::has_remote_shards(settings) || config::is_remote_shard(settings);
  if (settings.cluster.shards > 1 && !elsewhere)
    return std::min(settings.cluster.shards, cpus.allowed);
  auto waits_alone = config::gradients_per_step(settings) == 1;
  auto idle = usable(cpus) / (waits_alone ? sharers(settings, cpus) : 1);
  return std::min({std::max(1u, idle), cpus.allowed, most});
}

cgroup_limits read_cgroups(const fs::path& root) {
  cgroup_limits out;
  std::ifstream in{root / "proc/self/cgroup"};
  for (std::string line; std::getline(in, line);) {
    auto first = line.find(':');
    auto second = line.find(':', first + 1);
    if (first != line.npos && second != line.npos)
      take_group(out, root / "sys/fs/cgroup",
                 line.substr(first + 1, second - first - 1),
                 line.substr(second + 1));
  }
  return out;
}

uint64_t find_memory() {
  auto pages = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES));
  auto all = pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return std::min(all, read_cgroups().memory.value_or(all));
}

cpu_facts find_cpus() {
  cpu_facts out;
  auto online = sysconf(_SC_NPROCESSORS_ONLN);
  out.cores = online > 0 ? static_cast<uint32_t>(online)
                         : std::max(1u, std::thread::hardware_concurrency());
  out.allowed = allowed_by_kernel();
  auto limits = read_cgroups();
  out.cores = std::min(out.cores, limits.cores.value_or(out.cores));
  out.quota = limits.quota;
  auto here = config::find_local_place(config::process_environment());
  out.launched = here.processes;
  out.bound = here.bound;
  return out;
}

} // namespace troupe::app
