#include "config/values/script.hpp"

#include "config/text/failure.hpp"

#include <filesystem>

namespace troupe::config {

namespace {

constexpr std::string_view prefix = "script:";

} // namespace

bool is_script(std::string_view network) {
  return network.starts_with(prefix);
}

std::string script_file(std::string_view network) {
  return std::string{network.substr(prefix.size())};
}

std::string short_name(std::string_view network) {
  if (!is_script(network))
    return std::string{network};
  return std::filesystem::path{script_file(network)}.stem().string();
}

void require_allowed(const training_settings& training) {
  if (is_script(training.network) && !training.allow_scripts)
    throw usage_error("--network " + training.network +
                      ": the file is a program that this node would run; if "
                      "you trust it, add --allow-scripts");
}

} // namespace troupe::config
