#include "tests/launchers/slurm.hpp"

#include "tests/launchers/programs.hpp"

#include <catch2/catch_test_macros.hpp>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <random>

namespace troupe::testing {

namespace {

namespace fs = std::filesystem;

/// Runs in the namespace, as its first process. $1 is the folder.
constexpr const char* start_daemons = R"(
cd "$1"
export PATH="$PATH:/usr/sbin" SLURM_CONF="$1/slurm.conf"
mount --bind hosts /etc/hosts
munged --foreground --force --key-file=key --socket="$1/munge.socket" \
  --pid-file=munge.pid --log-file=munge.log --seed-file=seed &
while [ ! -S munge.socket ]; do sleep 0.02; done
slurmctld -D -c &
for node in n1 n2 n3; do slurmd -D -N $node & done
wait
)";

/// The number of the first job. The port of a run follows from it, and other
/// tests run at the same time.
int first_job() {
  std::random_device source;
  return std::uniform_int_distribution<int>{1, 900}(source);
}

std::string host_name() {
  char out[256] = {};
  gethostname(out, sizeof out - 1);
  return out;
}

fs::path prepare(process_fixture& on) {
  require_programs({"slurmctld", "slurmd", "srun", "munged", "unshare"});
  if (::geteuid() != 0)
    SKIP("Slurm's daemons need root");
  auto folder = on.home() / "slurm";
  for (auto name : {"state", "n1", "n2", "n3"})
    fs::create_directories(folder / name);
  return folder;
}

} // namespace

slurm::slurm(process_fixture& on)
  : on_(on), daemons_([&] {
      auto folder = prepare(on);
      write_configuration();
      return child{{find_program("unshare"), "--pid", "--fork", "--kill-child",
                    "--mount-proc", "/bin/sh", "-c", start_daemons, "sh",
                    folder.string()},
                   folder / "daemons"};
    }()) {
  eventually("Slurm's nodes", [&] {
    if (!daemons_.running())
      throw std::runtime_error(daemons_.report());
    auto nodes = start({"sinfo", "--noheader", "--format=%T%D"});
    return nodes.wait() == 0 && nodes.said("idle3");
  });
}

slurm::~slurm() {
  try {
    start({"scancel", "--full", "--user=root"}).wait();
    start({"scontrol", "shutdown"}).wait();
  } catch (const std::exception&) {
    // The namespace ends with its first process.
  }
}

void slurm::write_configuration() const {
  auto home = folder().string();
  std::ofstream{folder() / "hosts"} << "127.0.0.1 localhost " << host_name()
                                    << "\n127.0.0.2 n1\n127.0.0.3 n2\n"
                                       "127.0.0.4 n3\n";
  std::ofstream key{folder() / "key"};
  std::random_device source;
  for (int i = 0; i < 256; ++i)
    key << std::to_string(source());
  key.close();
  fs::permissions(folder() / "key", fs::perms::owner_read);
  auto controller = free_port();
  std::ofstream file{folder() / "slurm.conf"};
  file << "ClusterName=t\nSlurmctldHost=" << host_name()
       << "(127.0.0.1)\nSlurmUser=root\nSlurmdUser=root\n"
       << "AuthType=auth/munge\nCredType=cred/munge\nAuthInfo=socket=" << home
       << "/munge.socket\nSlurmctldPort=" << controller
       << "\nStateSaveLocation=" << home << "/state\nSlurmdSpoolDir=" << home
       << "/%n\nSlurmctldPidFile=" << home
       << "/controller.pid\nSlurmdPidFile=" << home
       << "/%n.pid\nSlurmctldLogFile=" << home
       << "/controller.log\nSlurmdLogFile=" << home << "/%n.log\n"
       << "ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\n"
          "JobAcctGatherType=jobacct_gather/none\n"
          "AccountingStorageType=accounting_storage/none\nMpiDefault=none\n"
          "SelectType=select/cons_tres\nSelectTypeParameters=CR_Core\n"
          "SchedulerType=sched/builtin\n"
          "SchedulerParameters=batch_sched_delay=0\nReturnToService=2\n"
          "PlugStackConfig=/dev/null\nMailProg=/bin/true\n"
          "SlurmdParameters=config_overrides\n"
       << "FirstJobId=" << first_job() << "\n";
  for (int node = 1; node <= 3; ++node)
    file << "NodeName=n" << node << " NodeHostname=" << host_name()
         << " NodeAddr=127.0.0.1 Port=" << free_port()
         << " CPUs=8 State=UNKNOWN\n";
  file << "PartitionName=d Nodes=ALL Default=YES MaxTime=INFINITE State=UP "
          "OverSubscribe=FORCE:8\n";
}

child_options slurm::surroundings() const {
  child_options out;
  out.folder = on_.home();
  out.environment = {{"SLURM_CONF", (folder() / "slurm.conf").string()}};
  return out;
}

child slurm::start(const flags& command) {
  auto words = command;
  words.front() = find_program(command.front());
  auto name = command.front() + "." + std::to_string(++commands_);
  return {words, on_.home() / name, surroundings()};
}

std::string slurm::ask(const flags& command) {
  auto asked = start(command);
  if (asked.wait() != 0)
    throw std::runtime_error(asked.report());
  return asked.out();
}

std::string slurm::submit(const std::string& script, const flags& options) {
  auto file = on_.home() / "job.sh";
  std::ofstream{file} << "#!/bin/sh\n" << script;
  auto said = ask(flags{"sbatch", "--parsable", "--open-mode=append",
                        "--output=" + (on_.home() / "job.out").string()} +
                  options + flags{file.string()});
  return said.substr(0, said.find('\n'));
}

std::string slurm::output() const {
  return slurp(on_.home() / "job.out");
}

bool slurm::has_state(const std::string& job, const std::string& state) {
  auto found = ask({"scontrol", "show", "job", "--oneliner", job});
  return found.find("JobState=" + state + " ") != std::string::npos;
}

void slurm::await_state(const std::string& job, const std::string& state) {
  eventually("job " + job + " " + state, [&] { return has_state(job, state); });
}

// The wait begins when all of the job has ended, which is after it is PENDING.
// A job that starts again within a second of its end fails, since its nodes
// take it for the start that has ended.
void slurm::start_soon(const std::string& job) {
  constexpr std::chrono::seconds pause{2};
  auto again = std::chrono::steady_clock::now() + pause;
  eventually("the next start of job " + job, [&] {
    if (auto now = std::chrono::steady_clock::now(); now > again) {
      start({"scontrol", "update", "JobId=" + job, "StartTime=now"}).wait();
      again = now + pause;
    }
    return has_state(job, "RUNNING");
  });
}

} // namespace troupe::testing
