#pragma once
// A Slurm cluster on this machine: its controller, three node daemons and the
// daemon of its credentials, in a process namespace of their own, so that
// nothing of them outlives the test. The nodes n1 to n3 have a loopback address
// each, by which the processes on them find each other. Owned by a test, used
// on its thread.

#include "tests/process/process_fixture.hpp"

#include <string>

namespace troupe::testing {

class slurm {
public:
  /// Starts the cluster and waits for its nodes. Leaves the test out without
  /// Slurm, or without root.
  explicit slurm(process_fixture& on);

  /// Ends all jobs and the cluster.
  ~slurm();

  slurm(const slurm&) = delete;
  slurm& operator=(const slurm&) = delete;

  /// One of Slurm's commands, under way.
  child start(const flags& command);

  /// What one of Slurm's commands prints; it must succeed.
  std::string ask(const flags& command);

  /// Submits a script of the shell; returns the number of its job. What it
  /// prints goes to `output()`, also when it is started again.
  std::string submit(const std::string& script, const flags& options);

  std::string output() const;

  /// Waits until the job is in this state, such as COMPLETED.
  void await_state(const std::string& job, const std::string& state);

  /// Starts a job that was requeued: by itself it waits for two minutes.
  void start_soon(const std::string& job);

private:
  bool has_state(const std::string& job, const std::string& state);
  std::filesystem::path folder() const { return on_.home() / "slurm"; }
  child_options surroundings() const;
  void write_configuration() const;

  process_fixture& on_;
  int commands_ = 0;
  child daemons_;
};

} // namespace troupe::testing
