#include "config/schema/known_names.hpp"

#include "config/text/call.hpp"
#include "config/text/registered.hpp"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

namespace troupe::config {

namespace {

struct name_lists {
  std::vector<std::string> networks;
  std::vector<std::string> datasets;
  std::vector<std::string> without_files;    ///< Of these.
  std::map<std::string, std::string> images; ///< Of these, their shape.
  std::vector<registered_name> losses;
};

/// Made when the first name is added, whichever source that is in.
name_lists& names() {
  static name_lists all;
  return all;
}

std::vector<std::string> checked_losses() {
  require_registered("loss", names().losses);
  std::vector<std::string> out;
  for (const auto& each : names().losses)
    out.push_back(each.name);
  return out;
}

} // namespace

void add_network(std::string name) {
  names().networks.push_back(std::move(name));
}

void add_dataset(std::string name, bool reads_files, const std::string& image) {
  names().images[name] = image;
  if (!reads_files)
    names().without_files.push_back(name);
  names().datasets.push_back(std::move(name));
}

void add_loss(std::string name, bool is_complete) {
  names().losses.push_back({std::move(name), is_complete});
}

std::span<const std::string> known_losses() {
  static const auto all = checked_losses();
  return all;
}

std::span<const std::string> known_networks() {
  return names().networks;
}

std::span<const std::string> known_datasets() {
  return names().datasets;
}

std::string image_of(const std::string& dataset) {
  auto found = names().images.find(dataset);
  return found == names().images.end() ? "" : found->second;
}

bool reads_files(const std::string& dataset) {
  return std::ranges::count(names().without_files, name_of_call(dataset)) == 0;
}

} // namespace troupe::config
