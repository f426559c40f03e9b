#pragma once
// Finds images in folders, one folder for each class, as torchvision's
// ImageFolder does: classes ordered by name, images of a class by path.
// Stateless; any thread.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace troupe::data {

/// The images of one part of a data set (train, val).
struct folder_index {
  struct image {
    std::filesystem::path file;
    int64_t label = 0;
  };

  std::vector<std::string> classes;
  std::vector<image> images;
  uint64_t others = 0; ///< Files that are no images.
};

/// @param known Classes that are already numbered; if empty, the folders found
/// are numbered.
/// @throws run_error if there is no class, a class has no images or is not
/// among the known ones.
folder_index index_folder(const std::filesystem::path& folder,
                          const std::vector<std::string>& known = {});

/// The folder of the test part: val, else test.
/// @throws run_error if there is none.
std::filesystem::path find_test_folder(const std::filesystem::path& data_dir);

} // namespace troupe::data
