#pragma once
// What can be known about a data set before any sample is read. Reads at most
// headers and the names of files; called by `--check`. Stateless; any thread.

#include "config/text/settings.hpp"
#include "data/left_out.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace troupe::data {

/// The properties of a data set that its files reveal without reading a sample.
struct dataset_survey {
  std::string name;
  std::array<int64_t, 3> shape{};  ///< C, H, W of a transformed sample.
  std::optional<int64_t> classes;  ///< None: only the labels tell.
  std::optional<uint64_t> train{}; ///< Samples. None: not counted.
  std::optional<uint64_t> test{};
  uint64_t resident = 0; ///< Bytes in memory while the samples are loaded.
  /// The files that will not be used, as far as a survey sees.
  left_out without{};
};

/// @throws as load_dataset, as far as that can be seen without reading samples.
dataset_survey survey_dataset(const config::data_settings& settings);

} // namespace troupe::data
