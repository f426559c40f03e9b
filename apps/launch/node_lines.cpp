#include "apps/launch/node_lines.hpp"

#include <cstdlib>
#include <optional>

namespace troupe::app {

recording::log_origin origin_of(const std::string& name, pid_t pid) {
  auto dash = name.find('-');
  auto only_server = name == "ps";
  std::optional<uint32_t> rank;
  if (only_server)
    rank = 0;
  else if (dash != std::string::npos)
    rank = static_cast<uint32_t>(std::atoi(name.c_str() + dash + 1));
  auto out =
    recording::origin_of_process(name.substr(0, dash), rank, !only_server);
  out.pid = pid;
  return out;
}

std::string json_line_of(const std::string& name, pid_t pid,
                         const std::string& line) {
  if (recording::line_in(line))
    return line;
  return recording::json_line(origin_of(name, pid), recording::time_of_day(),
                              line);
}

} // namespace troupe::app
