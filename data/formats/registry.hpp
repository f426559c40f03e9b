#pragma once
// The data sets that `--dataset` names: their shape, the files they need and
// their usual augmentation. Filled before main begins, immutable afterwards:
// any thread may read it.

#include "config/text/settings.hpp"
#include "config/values/augmentation.hpp"
#include "data/formats/sources.hpp"

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace troupe::data {

struct dataset_entry {
  std::string name;
  std::string image;    ///< "3x32x32"
  std::string classes;  ///< "10"
  std::string training; ///< What `--augment auto` means.
  std::string files;    ///< Below the data-dir; "" for sets without.
  normalisation scale;
  /// Loads the samples. The settings name this entry, or hold a declaration
  /// that begins with its name.
  std::function<source_pair(const config::data_settings&, uint64_t seed,
                            data_part wanted)>
    load;
  /// Surveys the files without reading samples.
  std::function<source_survey(const config::data_settings&)> survey;
  /// Loads what can be loaded of both parts, and notes the damaged files. May
  /// be absent: then `load` does, and the first damaged file ends it.
  std::function<source_pair(const config::data_settings&, damage_list&)>
    inspect{};
};

/// In the order that users see.
/// @throws usage_error if one that a program has registered is invalid.
const std::vector<dataset_entry>& dataset_registry();

/// The entry that a name or a declaration belongs to.
/// @throws usage_error if there is none.
const dataset_entry& entry_of(const std::string& dataset);

} // namespace troupe::data
