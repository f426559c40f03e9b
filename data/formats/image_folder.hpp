#pragma once
// Finds images in folders, one folder for each class, as torchvision's
// ImageFolder does: classes ordered by name, images of a class by path. Unlike
// there, hidden files and folders (left_out.hpp) are no part of the set.
// Stateless; any thread.

#include "data/formats/damage.hpp"
#include "data/left_out.hpp"

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
  left_out without; ///< What else there is.
};

/// @param known Classes that are already numbered; if empty, the folders found
/// are numbered.
/// @throws run_error if there is no class, a class has no images or is not
/// among the known ones; the latter two are noted in `damage` if it is given.
folder_index index_folder(const std::filesystem::path& folder,
                          const std::vector<std::string>& known = {},
                          damage_list* damage = nullptr);

/// The folder of the test part: val, else test.
/// @throws run_error if there is none.
std::filesystem::path find_test_folder(const std::filesystem::path& data_dir);

} // namespace troupe::data
