#include "apps/startup/cores.hpp"
#include "tests/support/temporary_folder.hpp"

#include <catch2/catch_test_macros.hpp>

#include <fstream>

using namespace troupe;
using namespace troupe::app;

namespace {

config::settings one(config::role role, const std::string& host = "10.0.0.1",
                     uint32_t workers = 4) {
  config::settings out;
  out.what = role;
  out.cluster.host = host;
  out.cluster.workers = workers;
  return out;
}

cpu_facts machine(uint32_t cores) {
  cpu_facts out;
  out.cores = out.allowed = cores;
  return out;
}

/// A /proc and a /sys.
class tree {
public:
  void write(const std::string& name, const std::string& text) {
    auto file = folder_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream{file} << text;
  }

  cgroup_limits read() const { return read_cgroups(folder_.path()); }

private:
  testing::temporary_folder folder_;
};

} // namespace

TEST_CASE("threads are all cores of a machine of its own, a share of others") {
  auto worker = config::role::worker;
  CHECK(threads_share(one(worker), machine(8)) == 8);
  CHECK(threads_share(one(worker, "127.0.0.1"), machine(8)) == 2);
  CHECK(threads_share(one(worker, "localhost", 3), machine(8)) == 2);
  CHECK(threads_share(one(worker, "::1", 100), machine(8)) == 1);
  CHECK(threads_share(one(config::role::simulate), machine(8)) == 2);
  auto given = one(worker);
  given.training.threads = 5;
  CHECK(threads_share(given, machine(2)) == 5);
  auto piped = one(worker);
  piped.parallel.mode = config::parallel_mode::pipeline;
  piped.parallel.stages = 4;
  CHECK(threads_share(piped, machine(8)) == 2);
  piped.parallel.stages.reset();
  piped.training.placement = "conv*=worker,*=worker";
  CHECK(threads_share(piped, machine(8)) == 4);
  auto replicas = one(worker);
  replicas.parallel.replicas = 2;
  CHECK(threads_share(replicas, machine(8)) == 4);
  auto host = one(config::role::ps); // Of four workers.
  host.parallel.mode = config::parallel_mode::remote_forward;
  CHECK(threads_share(host, machine(8)) == 2);
  auto timeless = one(config::role::simulate);
  timeless.simulation.clock = config::clock_kind::virtual_time;
  CHECK(threads_share(timeless, machine(64)) == 1);
}

TEST_CASE("a step that others wait for is made by all cores") {
  auto sync = one(config::role::ps);
  sync.policy.name = "sync";
  CHECK(lanes_share(sync, machine(2)) == 2);
  CHECK(lanes_share(sync, machine(64)) == 8);
  auto limited = machine(64);
  limited.quota = 3.5;
  CHECK(lanes_share(sync, limited) == 3);
  sync.cluster.shards = 3;
  CHECK(lanes_share(sync, machine(2)) == 2);
  CHECK(lanes_share(sync, machine(64)) == 3);
  auto async = one(config::role::ps);
  async.policy.name = "async";
  CHECK(lanes_share(async, machine(4)) == 4); // They are the server's alone.
  CHECK(lanes_share(async, machine(64)) == 8);
  async.cluster.host = "127.0.0.1"; // Three workers compute beside it.
  CHECK(lanes_share(async, machine(2)) == 1);
  CHECK(lanes_share(async, machine(12)) == 3);
  CHECK(lanes_share(async, machine(64)) == 8);
  async.cluster.shards = 4;
  CHECK(lanes_share(async, machine(64)) == 4);
}

TEST_CASE("shards in processes of their own have lanes like one server") {
  for (uint32_t rank : {0, 1}) {
    auto shard = one(config::role::ps);
    shard.cluster.shards = 2;
    shard.cluster.rank = rank;
    shard.policy.name = "sync";
    CHECK(lanes_share(shard, machine(4)) == 4);
    shard.policy.name = "async";
    CHECK(lanes_share(shard, machine(4)) == 4);
    shard.cluster.host = "127.0.0.1";
    CHECK(lanes_share(shard, machine(4)) == 1);
  }
}

TEST_CASE("processes that a launcher has started on a host share its cores") {
  auto cpus = machine(8);
  cpus.launched = 2;
  CHECK(threads_share(one(config::role::worker), cpus) == 4);
  CHECK(threads_share(one(config::role::simulate), cpus) == 1);
  cpus.launched = 16;
  CHECK(threads_share(one(config::role::worker, "10.0.0.1", 30), cpus) == 1);
  // A parameter server and one worker: one of them computes.
  cpus.launched = 2;
  CHECK(threads_share(one(config::role::worker, "127.0.0.1", 1), cpus) == 8);
  // What a single process has started itself shares its cores, too.
  cpus.launched = 1;
  CHECK(threads_share(one(config::role::worker, "127.0.0.1", 4), cpus) == 2);
}

TEST_CASE("threads keep to the cores that the kernel allows") {
  auto cpus = machine(8);
  cpus.allowed = 3;
  CHECK(threads_share(one(config::role::worker), cpus) == 3);
  // The mask is that of a shell, and all that it starts share these three.
  CHECK(threads_share(one(config::role::worker, "127.0.0.1", 3), cpus) == 1);
  // Or the launcher has given each process two cores of its own.
  cpus.allowed = 2;
  cpus.launched = 4;
  cpus.bound = true;
  CHECK(threads_share(one(config::role::worker), cpus) == 2);
  cpus.bound = false;
  CHECK(threads_share(one(config::role::worker), cpus) == 1);
  // Or it has not, and they share eight.
  cpus.allowed = 8;
  cpus.bound = true;
  CHECK(threads_share(one(config::role::worker), cpus) == 2);
}

TEST_CASE("threads keep to the quota of a container") {
  auto cpus = machine(64);
  cpus.quota = 4.5;
  CHECK(threads_share(one(config::role::worker), cpus) == 4);
  cpus.launched = 2;
  CHECK(threads_share(one(config::role::worker), cpus) == 2);
  cpus.quota = 0.5;
  CHECK(threads_share(one(config::role::worker), cpus) == 1);
  cpus = machine(2);
  cpus.quota = 16;
  CHECK(threads_share(one(config::role::worker), cpus) == 2);
}

TEST_CASE("control groups of version 2 are read") {
  tree all;
  all.write("proc/self/cgroup", "0::/system.slice/job\n");
  CHECK_FALSE(all.read().quota);
  CHECK_FALSE(all.read().cores);
  all.write("sys/fs/cgroup/cpuset.cpus.effective", "0-15\n");
  all.write("sys/fs/cgroup/system.slice/cpu.max", "600000 100000\n");
  all.write("sys/fs/cgroup/system.slice/job/cpu.max", "max 100000\n");
  all.write("sys/fs/cgroup/system.slice/job/cpuset.cpus.effective",
            "0-3,8,10-11\n");
  CHECK(all.read().quota == 6);
  CHECK(all.read().cores == 7u);
  all.write("sys/fs/cgroup/system.slice/job/cpu.max", "150000 100000\n");
  CHECK(all.read().quota == 1.5);
}

TEST_CASE("control groups of version 1 are read") {
  tree all;
  all.write("proc/self/cgroup", "5:cpuset:/box\n"
                                "2:cpu,cpuacct:/box\n"
                                "1:name=systemd:/\n"
                                "0::/\n");
  all.write("sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", "250000\n");
  all.write("sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us", "100000\n");
  all.write("sys/fs/cgroup/cpuset/box/cpuset.cpus", "4-5\n");
  CHECK(all.read().quota == 2.5);
  CHECK(all.read().cores == 2u);
  all.write("sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", "-1\n");
  CHECK_FALSE(all.read().quota);
}

TEST_CASE("control groups limit memory") {
  tree all;
  all.write("proc/self/cgroup", "3:memory:/box\n0::/a/b\n");
  CHECK_FALSE(all.read().memory);
  all.write("sys/fs/cgroup/a/b/memory.max", "max\n");
  CHECK_FALSE(all.read().memory);
  all.write("sys/fs/cgroup/a/memory.max", "2000000000\n");
  CHECK(all.read().memory == 2'000'000'000u);
  all.write("sys/fs/cgroup/memory/memory.limit_in_bytes",
            "9223372036854771712\n");
  CHECK(all.read().memory == 2'000'000'000u);
  all.write("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "1000000000\n");
  CHECK(all.read().memory == 1'000'000'000u);
}

TEST_CASE("a container that does not see its path has its group at the root") {
  tree all;
  all.write("proc/self/cgroup", "4:cpu:/docker/abc\n");
  all.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "300000\n");
  all.write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  CHECK(all.read().quota == 3);
}

TEST_CASE("what is no control group limits nothing") {
  tree all;
  CHECK_FALSE(all.read().quota);
  all.write("proc/self/cgroup", "nonsense\n0::/x\n");
  all.write("sys/fs/cgroup/x/cpu.max", "much\n");
  all.write("sys/fs/cgroup/x/cpuset.cpus.effective", "3-1\n");
  CHECK_FALSE(all.read().quota);
  CHECK_FALSE(all.read().cores);
}

TEST_CASE("this process has a core at least") {
  auto cpus = find_cpus();
  CHECK(cpus.cores >= 1);
  CHECK(cpus.allowed >= 1);
}
