#pragma once
// Loads the samples of each kind of data set. The registry (registry.hpp) maps
// names to these functions. With a `damage` list, files that are damaged are
// noted there and left out, instead of ending the function; a part without a
// good file then has no store, or one without samples. Stateless; any thread.

#include "config/values/external.hpp"
#include "config/values/synthetic.hpp"
#include "config/values/tar_shards.hpp"
#include "data/dataset.hpp"
#include "data/formats/damage.hpp"
#include "data/left_out.hpp"

#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

namespace troupe::data {

/// Samples before any transform, and their properties.
struct dataset_source {
  std::shared_ptr<const sample_store> store;
  std::array<int64_t, 3> shape{}; ///< C, H, W; 3, 0, 0: any size.
  int64_t classes = 0;
  left_out without{}; ///< Files beside the samples, where they are in files.
};

/// The parts of a data set; a part that is not wanted has no store.
struct source_pair {
  dataset_source train;
  dataset_source test;
};

/// What is known about the samples before any is read.
struct source_survey {
  std::array<int64_t, 3> shape{};  ///< As in dataset_source.
  std::optional<int64_t> classes;  ///< None: only the labels tell.
  std::optional<uint64_t> train{}; ///< Samples. None: not counted.
  std::optional<uint64_t> test{};
  bool in_memory = true; ///< Once loaded; else read when needed.
  left_out without{};    ///< Files that will not be used, as far as seen.
};

/// The bundled digits at 28x28, split by `seed`: 1,437 for training, 360 for
/// testing, classes in proportion, each part in the order of the source.
source_pair load_digits(uint64_t seed);

/// A coarse picture for each class plus noise; the same bytes on every machine.
/// A convolutional network learns it in a few steps.
source_pair make_synthetic(const config::synthetic_data& dataset,
                           data_part wanted);

/// Samples that are not here: they can be counted and not loaded.
source_pair make_external(const config::external_data& dataset);

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
source_pair load_idx(const idx_dataset_description& description,
                     const std::filesystem::path& data_dir, data_part wanted,
                     damage_list* damage = nullptr);

/// The same from the headers of the files.
source_survey survey_idx(const idx_dataset_description& description,
                         const std::filesystem::path& data_dir);

/// What the files of a data set in CIFAR's binary files are called: records of
/// `label_bytes` labels, of which the last counts, and 3x32x32 pixels.
struct cifar_description {
  std::string name;
  std::string folder; ///< Below the data-dir, if not the data-dir itself.
  uint32_t classes = 10;
  uint32_t label_bytes = 1;
  /// `#` stands for a number: all files from 1 on that exist.
  std::string train;
  std::string test;
  /// The folder of the version for Python, whose pickles are not read, and a
  /// file that only this version has.
  std::string python;
  std::string python_file;
};

/// @throws run_error naming file, position and what is wrong there.
source_pair load_cifar(const cifar_description& description,
                       const std::filesystem::path& data_dir, data_part wanted,
                       damage_list* damage = nullptr);

/// The same from the sizes of the files.
source_survey survey_cifar(const cifar_description& description,
                           const std::filesystem::path& data_dir);

/// `data_dir`/{train,val}/CLASS/.../IMAGE, or `test` for `val`. Classes and
/// their order are those of train's folders, by name.
/// @throws run_error if a folder is absent or has no images.
source_pair load_folder(const std::filesystem::path& data_dir, data_part wanted,
                        damage_list* damage = nullptr);

/// Counts the classes, and the files that will not be used.
/// @throws as load_folder.
source_survey survey_folder(const std::filesystem::path& data_dir);

/// Tar files whose members come in groups of one stem: an image and STEM.cls,
/// which holds the number of the class. Without names: all train*.tar, and all
/// val*.tar or test*.tar. The number of classes follows from the highest label.
/// @throws run_error naming file, position and what is wrong there.
source_pair load_tar(const config::tar_shards& archives,
                     const std::filesystem::path& data_dir, data_part wanted,
                     damage_list* damage = nullptr);

/// Only checks that the files exist.
/// @throws run_error if one is absent.
source_survey survey_tar(const config::tar_shards& archives,
                         const std::filesystem::path& data_dir);

} // namespace troupe::data
