#pragma once
// What can be known of a data set before any of its samples is read, however
// many there are. Any thread.

#include "config/text/settings.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace troupe::data {

/// What a look at its files tells of a data set. No sample is read.
struct dataset_survey {
  std::string name;
  std::array<int64_t, 3> shape{};  ///< C, H, W of what comes out.
  std::optional<int64_t> classes;  ///< None: the labels alone say it.
  std::optional<uint64_t> train{}; ///< Samples. None: they are not counted.
  std::optional<uint64_t> test{};
  uint64_t resident = 0; ///< Bytes that the loaded samples take all the time.
};

/// @throws as load_dataset, as far as that can be seen without reading samples.
dataset_survey survey_dataset(const config::data_settings& settings);

/// A step needs a full batch.
/// @throws run_error if there are fewer than `batch_size` samples.
void require_batch(const std::string& name, uint64_t samples,
                   uint64_t batch_size);

} // namespace troupe::data
