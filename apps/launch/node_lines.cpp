#include "apps/launch/node_lines.hpp"

#include <cstdlib>
#include <optional>

namespace troupe::app {

recording::log_origin origin_of(const std::string& name, pid_t pid,
                                const std::string& host) {
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
  if (!host.empty())
    out.host = host;
  return out;
}

std::string json_line_of(const recording::log_origin& who,
                         const std::string& line) {
  return recording::line_in(line)
           ? line
           : recording::json_line(who, recording::time_of_day(), line);
}

} // namespace troupe::app
