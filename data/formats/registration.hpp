#pragma once
// Registers a data set of your own under a name, like those of Troupe: define
// one such object in a source file of your program.
//
//   static const troupe::data::register_dataset mine{
//     {.name = "stripes",
//      .image = "1x28x28",
//      .classes = "4",
//      .training = "none",
//      .files = "stripes.bin", // "" for one that needs no --data-dir.
//      .scale = {{0.5}, {0.25}},
//      .load = [](const auto& settings, uint64_t, auto wanted) {
//        return load_stripes(settings.data_dir, wanted);
//      },
//      .survey = [](const auto& settings) {
//        return survey_stripes(settings.data_dir);
//      }}};
//
// `--dataset stripes` then works wherever `--dataset mnist` does. Samples that
// are bytes in memory are a `memory_store`; others derive from `sample_store`
// (data/store.hpp).
//
// To be constructed before main begins; not thread-safe.

#include "data/formats/registry.hpp"

namespace troupe::data {

class register_dataset {
public:
  /// A name that is taken or invalid is reported as `usage_error` when data
  /// sets are looked up: before main nobody could catch it.
  explicit register_dataset(dataset_entry entry);
};

} // namespace troupe::data
