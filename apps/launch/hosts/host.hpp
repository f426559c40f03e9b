#pragma once
// A machine on which `trainer_node launch` starts processes: this one, or
// another. The launch sees only this. For one thread.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe::app {

/// The run directory of a server that may be started again.
struct continued_run {
  std::filesystem::path train_dir;
  /// Whether the server is told to go on with a run, or to remove one: then it
  /// is started in the same way until it has a checkpoint of its own.
  bool begins_with_another = false;
  /// The life that the folder had before the first start of the server, once
  /// that is known; empty if there was none.
  std::optional<std::string> life_before{};
};

/// A process that is to be started.
struct child_plan {
  std::string name;                 ///< "worker-0"; stands before its lines.
  std::vector<std::string> command; ///< Program and arguments.
  std::map<std::string, std::string> environment{}; ///< Added to the host's.
  size_t host = 0;                                  ///< Its number.
  /// Of the server that goes on with its run when it is started again.
  std::optional<continued_run> run{};
  bool as_json = false; ///< Whether its lines are passed on as JSON objects.
};

/// Told of each complete line.
using line_taker = std::function<void(const std::string&)>;

/// A process that was started.
class process {
public:
  virtual ~process() = default;

  /// Takes what it has printed, and passes on complete lines.
  virtual void read(const line_taker& say) = 0;

  /// Its id, if it runs on this machine; else 0.
  virtual int pid() const { return 0; }

  /// The line that it is still redrawing on its terminal.
  virtual std::string live() const = 0;

  /// Its exit status once it has ended, or 128 + the number of a signal. Lines
  /// may be left to read.
  virtual std::optional<int> ended() = 0;

  /// Sends a signal to it and to what it has started, as long as it runs.
  virtual void signal(int number) = 0;

  /// Kills the processes that it has left behind. To be called at once after
  /// its end: later its id may be another process's.
  virtual void kill_rest() = 0;
};

class host {
public:
  virtual ~host() = default;

  /// Its name or address; empty: this machine.
  virtual std::string name() const { return {}; }

  /// Throws `run_error`.
  /// @param columns Width of the terminal that it is given; 0: a pipe.
  virtual std::unique_ptr<process> start(const child_plan& plan,
                                         size_t columns) = 0;

  /// Adds the files that can be read when something has happened here.
  virtual void list_files(std::vector<int>& out) const = 0;

  /// Takes note of what has happened. @param say Told of what concerns the host
  /// and none of its processes.
  virtual void look(const line_taker& say) = 0;

  /// A port that is free there. Throws `run_error`.
  virtual uint16_t find_port(const std::string& address) = 0;

  /// Makes a folder for a run of this network. Throws `run_error`.
  virtual std::filesystem::path make_folder(const std::string& network) = 0;

  /// Kills all that is left there.
  virtual void end_at_once() = 0;

  /// Begins to end what the processes have left behind.
  virtual void begin_end() = 0;

  /// Waits until nothing is left there, for some seconds at most.
  virtual void finish_end() = 0;
};

} // namespace troupe::app
