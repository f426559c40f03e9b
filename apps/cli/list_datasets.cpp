#include "apps/cli/list_datasets.hpp"

#include "data/formats/registry.hpp"

#include <cstdio>

namespace troupe::app {

namespace {

std::string dataset_row(const char* name, const char* image,
                        const char* classes, const char* training,
                        const char* files) {
  char line[256];
  std::snprintf(line, sizeof line, "%-15s  %-7s  %7s  %-20s  %s\n", name, image,
                classes, training, files);
  return line;
}

} // namespace

std::string list_datasets() {
  auto out = dataset_row("data set", "image", "classes", "augment",
                         "files in the data-dir");
  for (const auto& each : data::dataset_registry())
    out += dataset_row(each.name.c_str(), each.image.c_str(),
                       each.classes.c_str(), each.training.c_str(),
                       each.files.empty() ? "none" : each.files.c_str());
  return out;
}

} // namespace troupe::app
