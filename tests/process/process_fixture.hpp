#pragma once
// A folder, a port and the trainer_node processes of one test, and readers for
// what a run leaves in its directory. Owned by a test, used on its thread.

#include "tests/support/process.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/wished.hpp"

#include <nlohmann/json.hpp>

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace troupe::testing {

using nlohmann::json;
using flags = std::vector<std::string>;

flags operator+(flags left, const flags& right);

flags with_shards(int shards);

/// The number of training images of the digits.
inline constexpr uint64_t digits = 1437;

/// The command line of the program under test, followed by `more`.
std::vector<std::string> trainer_node(const flags& more);

/// The complete lines of a run's metrics so far.
std::vector<json> read_metrics(const std::filesystem::path& run);

json read_summary(const std::filesystem::path& run);

/// Names in `folder`, sorted; folders as "name/...".
std::vector<std::string> files_below(const std::filesystem::path& folder);

/// Names of the checkpoints of a run, oldest first.
std::vector<std::string> checkpoints_of(const std::filesystem::path& run);

std::function<bool(const json&)> is_kind(const std::string& kind);

/// Matches an update that makes this version of the weights or a later one.
std::function<bool(const json&)> is_step(uint64_t least);

/// Matches an update that contains a gradient of this worker.
std::function<bool(const json&)> is_gradient_of(uint32_t who);

/// Whether a line is about worker `who`, and about its life `life` if it names
/// one.
bool is_about(const json& line, uint32_t who, uint64_t life);

/// What is in the weights at the end: the updates that no resume rolled back.
struct committed {
  std::vector<json> updates;
  uint64_t samples = 0;
  uint64_t resumes = 0;
  uint64_t rolled_back = 0; ///< updates
};

/// Follows the metrics and rolls back at each resume. Throws when steps are
/// missing, or a resume reports wrong losses.
committed committed_of(const std::vector<json>& metrics);

/// The samples, counted once per epoch, that the ledger of a checkpoint holds
/// as applied. It keeps ranges, so it cannot count one twice.
uint64_t settled_in(const std::filesystem::path& checkpoint);

/// Checks that two runs have ended with the same weights, optimiser's state and
/// scores.
void check_same_result(const json& found, const json& expected);

/// The runs of a fixture leave event logs and all their checkpoints, and
/// compute with one thread, so that `check_replayed` can repeat them.
struct recorded_t {};
inline constexpr recorded_t recorded;

/// The processes of one run on this machine.
class process_fixture {
public:
  process_fixture();
  explicit process_fixture(recorded_t);

  /// Starts another program than trainer_node, with the same command line.
  explicit process_fixture(std::string program);

  std::filesystem::path run() const { return home_ / "run"; }
  std::filesystem::path home() const { return home_.path(); }
  const std::string& port() const { return port_; }
  bool is_recorded() const { return recorded_; }

  /// What `recorded` adds to the flags of who writes the run directory, and to
  /// those of a worker.
  flags of_writer() const;
  flags of_worker() const;

  /// The parameter server of this fixture, with the run directory run().
  child server(const flags& more);
  /// A remote parameter server shard, of rank 1 or more.
  child shard(int rank, const flags& more);
  child worker(const flags& more = {});
  child evaluator(const flags& more = {});
  child simulate(const flags& more);

  /// A parameter server that already accepts connections.
  child listening_server(const flags& more);

  /// Any command of the program, run in home().
  child start(const std::string& name, const flags& more,
              const child_options& how = {});

  std::vector<json> metrics() const { return read_metrics(run()); }
  json summary() const { return read_summary(run()); }

  /// Waits until the metrics have such a line at or after line `from`; returns
  /// the line's number. Throws when `server` ends first.
  size_t await(child& server, const std::string& event,
               const std::function<bool(const json&)>& wanted, size_t from = 0);

private:
  child is_member(const std::string& role, const flags& more);

  temporary_folder home_;
  std::string program_;
  std::string port_;
  bool recorded_ = false;
  std::map<std::string, int> counts_;
};

std::vector<child> workers_of(process_fixture& on, size_t count,
                              const flags& more = {});

/// The lead and the other shards of a run, each a process.
struct sharded_server {
  sharded_server(process_fixture& on, int shards, const flags& more);

  void check_ends(int status);

  child lead;
  std::vector<child> others;
};

/// Waits for the end of a process and checks its exit status; a failure shows
/// the process's output.
void check_end(child& who, int status, std::chrono::seconds limit = patience);

void check_ends_of(std::vector<child>& all, int status);

/// Memory of a process in kB. @param what VmRSS: now; VmHWM: the most so far.
uint64_t memory_of(pid_t process, const std::string& field = "VmRSS");

/// Checks that a completed run of so many epochs has applied each sample of
/// each epoch once: the updates that were not rolled back hold as many samples
/// as the ledger of the last checkpoint. A recorded run is replayed, too.
committed check_completed(process_fixture& on, uint64_t epochs);

/// Replays the event log of each life of a recorded run: each checkpoint that
/// the run has written, and its last weights, must have the same bits again. So
/// weights hold exactly the gradients that the server has decided on.
/// @param tolerance As compare_checkpoints has it, for a server that has
/// computed on a device.
void check_replayed(process_fixture& on, double tolerance = 0);

} // namespace troupe::testing
