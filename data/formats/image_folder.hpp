#pragma once
// Folders of images, a folder for each class, as torchvision's ImageFolder
// reads them: classes by name, images of a class by path.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace troupe::data {

/// What is in a part of a set (train, val).
struct folder_index {
  struct image {
    std::filesystem::path file;
    int64_t label = 0;
  };

  std::vector<std::string> classes;
  std::vector<image> images;
  uint64_t others = 0; ///< Files that are no images.
};

/// @param known Classes that have their numbers already; empty: those of the
/// folder get theirs.
/// @throws run_error if there is no class, a class has no images or is not
/// among those known.
folder_index index_folder(const std::filesystem::path& folder,
                          const std::vector<std::string>& known = {});

/// The folder of the part for testing: val, else test.
/// @throws run_error if there is none.
std::filesystem::path find_test_folder(const std::filesystem::path& data_dir);

} // namespace troupe::data
