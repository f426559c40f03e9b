// Names of data sets for tests of settings without data. To be listed among the
// sources of a test.

#include "config/schema/known_names.hpp"

namespace {

[[maybe_unused]] const bool datasets_are_known = [] {
  for (const auto* each :
       {"mnist", "fashion-mnist", "emnist-letters", "folder", "tar"})
    troupe::config::add_dataset(each, true);
  troupe::config::add_dataset("cifar10", true, "3x32x32");
  for (const auto* each : {"digits", "synthetic", "external"})
    troupe::config::add_dataset(each, false);
  return true;
}();

} // namespace
