#pragma once
// Where data sets come from. The registry (registry.hpp) names them.

#include "config/values/synthetic.hpp"
#include "config/values/tar_shards.hpp"
#include "data/dataset.hpp"

#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

namespace troupe::data {

/// Samples, and what is known of them before anything is done to them.
struct dataset_source {
  std::shared_ptr<const sample_store> store;
  std::array<int64_t, 3> shape{}; ///< C, H, W; 3, 0, 0: of any size.
  int64_t classes = 0;
};

/// A part that is not wanted has no store.
struct source_pair {
  dataset_source train;
  dataset_source test;
};

/// What is known of the samples before any is read.
struct source_survey {
  std::array<int64_t, 3> shape{};  ///< As of a source.
  std::optional<int64_t> classes;  ///< None: the labels alone say it.
  std::optional<uint64_t> train{}; ///< Samples. None: they are not counted.
  std::optional<uint64_t> test{};
  bool in_memory = true; ///< Once loaded; else each is read when it is needed.
};

/// The bundled digits at 28x28, split by `seed`: 1,437 for training, 360 for
/// testing, classes in proportion, each part in the order of the source.
source_pair load_digits(uint64_t seed);

/// A coarse picture for each class, and noise; the same bytes everywhere. A
/// convolutional network learns it in a few steps.
source_pair make_synthetic(const config::synthetic_data& what,
                           data_part wanted);

/// What the files of a data set in IDX files are called.
struct idx_dataset_description {
  std::string name;
  std::string folder; ///< Of torchvision's layout: FOLDER/raw.
  uint32_t classes = 10;
  std::string train = "train";
  std::string test = "t10k";
};

/// Reads {TRAIN,TEST}-{images-idx3,labels-idx1}-ubyte, with `.` for the `-`
/// before `idx` and with or without `.gz`, from `data_dir`, `data_dir`/raw or
/// `data_dir`/FOLDER/raw.
/// @throws run_error naming the file and what is wrong; if a file is absent,
/// the folders and names that were tried.
source_pair load_idx(const idx_dataset_description& what,
                     const std::filesystem::path& data_dir, data_part wanted);

/// The same by the headers of the files.
source_survey survey_idx(const idx_dataset_description& what,
                         const std::filesystem::path& data_dir);

/// What the files of a data set in CIFAR's binary files are called: records of
/// `label_bytes` labels, of which the last counts, and 3x32x32 pixels.
struct cifar_description {
  std::string name;
  std::string folder; ///< Below the data-dir, if not the data-dir itself.
  uint32_t classes = 10;
  uint32_t label_bytes = 1;
  /// With a number for `#`: all from 1 on that are there.
  std::string train;
  std::string test;
};

/// @throws run_error naming file, position and what is wrong there.
source_pair load_cifar(const cifar_description& what,
                       const std::filesystem::path& data_dir, data_part wanted);

/// The same by the sizes of the files.
source_survey survey_cifar(const cifar_description& what,
                           const std::filesystem::path& data_dir);

/// `data_dir`/{train,val}/CLASS/.../IMAGE, or `test` for `val`. Classes and
/// their order are those of train's folders, by name.
/// @throws run_error if a folder is absent or has no images.
source_pair load_folder(const std::filesystem::path& data_dir,
                        data_part wanted);

/// Counts the classes alone.
/// @throws run_error if there are none, or a folder is absent.
source_survey survey_folder(const std::filesystem::path& data_dir);

/// Tar files whose members come in runs of one stem: an image and STEM.cls,
/// which holds the number of the class. Without names: all train*.tar, and all
/// val*.tar or test*.tar. There are as many classes as the highest label says.
/// @throws run_error naming file, position and what is wrong there.
source_pair load_tar(const config::tar_shards& what,
                     const std::filesystem::path& data_dir, data_part wanted);

/// Looks for the files alone.
/// @throws run_error if one is absent.
source_survey survey_tar(const config::tar_shards& what,
                         const std::filesystem::path& data_dir);

} // namespace troupe::data
