#include "apps/launch/hosts/server_restart.hpp"

#include "config/sources/next_life_settings.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace troupe::app {

namespace {

/// Whether the last life of the run has written a checkpoint.
bool has_checkpoint_since_life(const std::filesystem::path& folder) {
  std::error_code none;
  auto begun = last_write_time(folder / "lives", none);
  auto all = std::filesystem::directory_iterator{folder / "checkpoints", none};
  return std::any_of(
    begin(all), end(all), [&](const std::filesystem::directory_entry& one) {
      return one.path().filename().string().starts_with("step-") &&
             one.last_write_time(none) >= begun;
    });
}

} // namespace

std::string life_in(const std::filesystem::path& folder) {
  std::string out;
  std::getline(std::ifstream{folder / "lives"}, out);
  return out;
}

std::map<std::string, std::string>
environment_of_restart(const continued_run& run) {
  auto life = life_in(run.train_dir);
  if (life.empty() || life == run.life_before ||
      (run.begins_with_another && !has_checkpoint_since_life(run.train_dir)))
    return {};
  return {{config::restart_variable, run.train_dir.string()}};
}

} // namespace troupe::app
