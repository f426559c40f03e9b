#include "config/values/script.hpp"

#include "config/text/failure.hpp"
#include "config/text/home.hpp"

#include <system_error>

namespace troupe::config {

namespace {

constexpr std::string_view script_prefix = "script:";
constexpr std::string_view described_prefix = "weights:";

} // namespace

bool is_script(std::string_view network) {
  return network.starts_with(script_prefix);
}

bool is_described(std::string_view network) {
  return network.starts_with(described_prefix);
}

std::string network_file(std::string_view network) {
  return expand_home(network.substr(network.find(':') + 1));
}

std::string described_by(const std::filesystem::path& file) {
  return std::string{described_prefix} + file.string();
}

std::string short_name(std::string_view network) {
  if (!is_file(network))
    return std::string{network};
  std::filesystem::path file = network_file(network);
  if (file.string().starts_with("/proc/self/fd/")) {
    std::error_code error;
    auto name = std::filesystem::read_symlink(file, error).filename().string();
    for (std::string_view mark : {"memfd:", " (deleted)"})
      if (auto at = name.find(mark); at != name.npos)
        name.erase(at, mark.size());
    file = name;
  }
  return file.stem().string();
}

void require_allowed(const training_settings& training) {
  if (is_script(training.network) && !training.allow_scripts)
    throw usage_error("--network " + training.network +
                      ": the file is a program that this node would run; if "
                      "you trust it, add --allow-scripts");
}

} // namespace troupe::config
