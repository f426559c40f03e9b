#include "apps/cli/list_networks.hpp"

#include "models/networks/registry.hpp"

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

std::string network_row(const char* name, const char* parameters,
                        const char* buffers, const char* keys,
                        const char* input, const char* classes) {
  char line[128];
  std::snprintf(line, sizeof line, "%-16s %11s  %8s  %4s  %-10s %7s\n", name,
                parameters, buffers, keys, input, classes);
  return line;
}

} // namespace

std::string list_networks() {
  auto out =
    network_row("network", "parameters", "buffers", "keys", "input", "classes");
  for (const auto& each : models::network_registry()) {
    auto size = models::size_of(each);
    out += network_row(
      each.name.c_str(), grouped(size.parameters).c_str(),
      grouped(size.buffers).c_str(), grouped(size.keys).c_str(),
      image_text(each.input).c_str(), std::to_string(each.classes).c_str());
  }
  return out;
}

} // namespace troupe::app
