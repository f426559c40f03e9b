#pragma once
// Where data sets come from. load_dataset (dataset.hpp) chooses.

#include "config/synthetic.hpp"
#include "data/dataset.hpp"

#include <filesystem>
#include <string>

namespace troupe::data {

/// The bundled digits at 28x28, split by `seed`: 1,437 for training, 360 for
/// testing, classes in proportion, each part in the order of the source.
dataset_pair load_digits(uint64_t seed);

/// A coarse picture for each class, and noise; the same bytes everywhere. A
/// convolutional network learns it in a few steps.
dataset_pair make_synthetic(const config::synthetic_data& what);

/// What a data set in IDX files is called and how it is normalised.
struct idx_dataset_description {
  std::string name;
  std::string folder; ///< Of torchvision's layout: FOLDER/raw.
  double mean = 0;
  double deviation = 1;
};

/// Reads {train,t10k}-{images-idx3,labels-idx1}-ubyte, with `.` for the `-`
/// before `idx` and with or without `.gz`, from `data_dir`, `data_dir`/raw or
/// `data_dir`/FOLDER/raw.
/// @throws run_error naming the file and what is wrong; if a file is absent,
/// the folders and names that were tried.
dataset_pair load_idx_dataset(const idx_dataset_description& what,
                              const std::filesystem::path& data_dir);

} // namespace troupe::data
