#pragma once
// A run of ssh, or of another command that runs one on another host: frames go
// to it and come from it, and what it complains of is kept. It dies with this
// process. For one thread.

#include "apps/launch/ssh/frames.hpp"
#include "config/text/descriptor.hpp"

#include <sys/types.h>

#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace troupe::app {

class ssh_link {
public:
  /// Throws `run_error`.
  explicit ssh_link(const std::vector<std::string>& command);

  /// Kills it if it still runs.
  ~ssh_link();

  ssh_link(const ssh_link&) = delete;
  ssh_link& operator=(const ssh_link&) = delete;

  frame_stream& stream() { return *stream_; }

  void list_files(std::vector<int>& out) const;

  /// Takes what has come. Returns the lines on its standard error.
  std::vector<std::string> read();

  /// Its exit status once it has ended; what it said before can still be taken.
  std::optional<int> ended();

  /// Ends its input: an agent then ends all that it has started.
  void close_input();

  /// The last lines on its standard error.
  const std::deque<std::string>& complaints() const { return complaints_; }

private:
  std::vector<std::string> read_errors();

  pid_t pid_ = 0;
  std::optional<int> status_;
  config::descriptor input_;
  config::descriptor output_;
  config::descriptor errors_;
  std::optional<frame_stream> stream_;
  std::string rest_; ///< Of a line of its standard error.
  std::deque<std::string> complaints_;
};

/// The command line of ssh that runs a command of the shell on a host. It never
/// asks for a password, and notices within a minute that the host is gone.
/// @param ssh A command of the shell here: "ssh -F config".
std::vector<std::string> ssh_command(const std::string& ssh,
                                     const std::string& login,
                                     const std::string& command);

/// The options of that, behind `ssh`, as a command of the shell.
std::string ssh_with_options(const std::string& ssh);

/// What to do where a host has no room for the program.
inline constexpr const char* make_room =
  "make room in ~/.cache/troupe there, or set XDG_CACHE_HOME there";

/// Why ssh could not run a command, in one line, with what to do about it.
/// @param complaints The last lines on its standard error.
std::string explain_ssh(const std::deque<std::string>& complaints, int status,
                        const std::string& login);

} // namespace troupe::app
