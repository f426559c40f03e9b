#pragma once
// What a launch prints: the lines of its processes, each with a name in front
// or as JSON, and below them, on a terminal, the lead's progress and how all
// are. For one thread.

#include "actors/recording/log_lines.hpp"
#include "apps/launch/hosts/host.hpp"
#include "apps/launch/node_states.hpp"

#include <span>
#include <string>
#include <vector>

namespace troupe::app {

class launch_output {
public:
  /// Prints a line of the launch itself.
  void say(const std::string& line);

  /// Prints a line of a process, or about it, as `in_form` gives it.
  void say(const child_plan& whose, const std::string& line);

  /// Prints lines on stderr, below what has been printed.
  void complain(const std::vector<std::string>& lines);

  /// Draws the line of progress of a process and one about all of them, in
  /// place of those before.
  void draw(const child_plan& whose, const std::string& live,
            std::span<const node_state> all);

  /// How wide a line of progress behind that name may be; 0: there is no
  /// terminal, or it has no room for one.
  static size_t columns_for(const child_plan& whose);

private:
  void erase();

  std::string drawn_; ///< The two lines that are on the terminal now.
};

/// A line of a process, or about it, in the form that the user wants.
std::string in_form(const child_plan& whose, const recording::log_origin& who,
                    const std::string& line);

} // namespace troupe::app
