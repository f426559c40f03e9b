#include "config/schema/known_names.hpp"

#include "config/text/call.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace troupe::config {

namespace {

struct name_lists {
  std::vector<std::string> networks;
  std::vector<std::string> datasets;
  std::vector<std::string> without_files; ///< Of these.
};

/// Made when the first name is added, whichever source that is in.
name_lists& names() {
  static name_lists all;
  return all;
}

} // namespace

void add_network(std::string name) {
  names().networks.push_back(std::move(name));
}

void add_dataset(std::string name, bool reads_files) {
  if (!reads_files)
    names().without_files.push_back(name);
  names().datasets.push_back(std::move(name));
}

std::span<const std::string> known_networks() {
  return names().networks;
}

std::span<const std::string> known_datasets() {
  return names().datasets;
}

bool reads_files(const std::string& dataset) {
  return std::ranges::count(names().without_files, name_of_call(dataset)) == 0;
}

} // namespace troupe::config
