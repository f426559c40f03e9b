#include "apps/launch/launch_output.hpp"

#include "actors/recording/progress.hpp"
#include "apps/launch/node_lines.hpp"
#include "apps/startup/resources.hpp"

#include <cstdio>
#include <utility>

namespace troupe::app {

namespace {

std::string prefix_of(const child_plan& whose) {
  return "[" + whose.name + "] ";
}

} // namespace

void launch_output::say(const std::string& line) {
  erase();
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

void launch_output::say(const child_plan& whose, const std::string& line) {
  say(whose.as_json ? line : prefix_of(whose) + line);
}

void launch_output::complain(const std::vector<std::string>& lines) {
  erase();
  for (const auto& line : lines)
    std::fprintf(stderr, "%s\n", line.c_str());
}

void launch_output::draw(const child_plan& whose, const std::string& live,
                         std::span<const node_state> all) {
  std::string own{"[launch] "};
  auto columns = terminal_width();
  if (columns <= own.size())
    return;
  auto lines = prefix_of(whose) + live + "\n" + own +
               states_line(all, columns - own.size());
  if (lines == drawn_)
    return;
  erase();
  std::printf("%s", lines.c_str());
  std::fflush(stdout);
  drawn_ = lines;
}

size_t launch_output::columns_for(const child_plan& whose) {
  auto columns = terminal_width();
  auto before = prefix_of(whose).size();
  return columns > 2 * before && !whose.as_json ? columns - before : 0;
}

void launch_output::erase() {
  constexpr auto line_above = "\x1b[A";
  std::string line{recording::erase_line};
  if (!std::exchange(drawn_, {}).empty())
    std::printf("%s", (line + line_above + line).c_str());
}

std::string in_form(const child_plan& whose, const recording::log_origin& who,
                    const std::string& line) {
  return whose.as_json ? json_line_of(who, line) : line;
}

} // namespace troupe::app
