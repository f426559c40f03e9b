#include "apps/launch/node_lines.hpp"

#include "actors/recording/log_lines.hpp"

#include <cstdlib>
#include <optional>

namespace troupe::app {

std::string json_line_of(const std::string& name, pid_t pid,
                         const std::string& line) {
  if (recording::line_in(line))
    return line;
  auto dash = name.find('-');
  std::optional<uint32_t> rank;
  if (dash != std::string::npos)
    rank = static_cast<uint32_t>(std::atoi(name.c_str() + dash + 1));
  auto who = recording::origin_of_process(name.substr(0, dash), rank);
  who.pid = pid;
  return recording::json_line(who, recording::time_of_day(), line);
}

} // namespace troupe::app
