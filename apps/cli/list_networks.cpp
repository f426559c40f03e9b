#include "apps/cli/list_networks.hpp"

#include "models/networks/registry.hpp"

#include <array>
#include <cstdint>
#include <cstdio>

namespace troupe::app {

namespace {

/// "11,689,512"
std::string grouped(uint64_t n) {
  auto out = std::to_string(n);
  for (auto i = static_cast<int>(out.size()) - 3; i > 0; i -= 3)
    out.insert(static_cast<size_t>(i), 1, ',');
  return out;
}

std::string image_text(const std::array<int64_t, 3>& image) {
  return std::to_string(image[0]) + "x" + std::to_string(image[1]) + "x" +
         std::to_string(image[2]);
}

/// @param cells Name, parameters, buffers, keys, input, classes.
std::string row_of(const std::array<std::string, 6>& cells) {
  char line[128];
  std::snprintf(line, sizeof line, "%-16s %11s  %8s  %4s  %-10s %7s\n",
                cells[0].c_str(), cells[1].c_str(), cells[2].c_str(),
                cells[3].c_str(), cells[4].c_str(), cells[5].c_str());
  return line;
}

} // namespace

std::string list_networks() {
  auto out =
    row_of({"network", "parameters", "buffers", "keys", "input", "classes"});
  for (const auto& each : models::network_registry()) {
    auto size = models::size_of(each);
    out += row_of({each.name, grouped(size.parameters), grouped(size.buffers),
                   grouped(size.keys), image_text(each.input),
                   std::to_string(each.classes)});
  }
  return out;
}

} // namespace troupe::app
