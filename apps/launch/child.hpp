#pragma once
// A process that `trainer_node launch` starts: its output comes through a pipe,
// line by line, and it dies with this process. For one thread.

#include "messages/transport/wire/socket.hpp"

#include <sys/types.h>

#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe::app {

struct child_plan {
  std::string name;                 ///< "worker-0"; stands before its lines.
  std::vector<std::string> command; ///< Program and arguments.
  std::map<std::string, std::string> environment{}; ///< Added to ours.
  bool as_json = false; ///< Whether its lines are passed on as JSON objects.
};

class child {
public:
  /// Starts it. @param log A file that gets the lines it prints; empty: none.
  /// @param columns Width of the terminal that it is given; 0: a pipe.
  /// @throws run_error
  child(const child_plan& plan, const std::filesystem::path& log,
        size_t columns = 0);

  /// Kills it if it still runs.
  ~child();

  child(const child&) = delete;
  child& operator=(const child&) = delete;

  pid_t pid() const { return pid_; }

  /// Where its output can be read; negative when there will be no more.
  int output() const { return output_.get(); }

  /// Takes what it has printed, and passes on complete lines, which then have
  /// the form that the plan says.
  void read(const std::function<void(const std::string&)>& say);

  /// The line that it is still redrawing on its terminal.
  std::string live() const;

  /// Its exit status once it has ended, or 128 + the number of a signal.
  std::optional<int> ended();

  /// Sends a signal to it and to what it has started, as long as it runs.
  void signal(int number) const;

  /// Kills the processes that it has left behind. To be called at once after
  /// its end: later its id may be another process's.
  void kill_rest() const;

private:
  void pass_on(const std::string& drawn,
               const std::function<void(const std::string&)>& say);

  std::string name_;
  bool as_json_;
  pid_t pid_ = 0;
  std::optional<int> status_;
  transport::descriptor output_;
  std::unique_ptr<FILE, int (*)(FILE*)> log_;
  std::string rest_; ///< Of a line.
};

} // namespace troupe::app
