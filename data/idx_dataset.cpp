#include "config/failure.hpp"
#include "data/idx.hpp"
#include "data/sources.hpp"

#include <array>
#include <system_error>
#include <utility>
#include <vector>

namespace troupe::data {

namespace {

namespace fs = std::filesystem;

std::vector<fs::path> folders(const idx_dataset_description& what,
                              const fs::path& data_dir) {
  return {data_dir, data_dir / "raw", data_dir / what.folder / "raw"};
}

/// @param stem, kind For example "train-images" and "idx3-ubyte".
fs::path find_file(const idx_dataset_description& what,
                   const fs::path& data_dir, const std::string& stem,
                   const std::string& kind) {
  std::error_code error;
  for (const auto& folder : folders(what, data_dir)) {
    for (const auto* separator : {"-", "."}) {
      for (const auto* ending : {"", ".gz"}) {
        auto file = folder / (stem + separator + kind + ending);
        if (fs::exists(file, error)) {
          return file;
        }
      }
    }
  }
  std::string tried;
  for (const auto& folder : folders(what, data_dir)) {
    tried += (tried.empty() ? "" : ", ") + folder.string();
  }
  throw run_error(what.name + ": no file " + stem + "-" + kind + " or " + stem +
                  "." + kind + " (or with .gz) in any of: " + tried);
}

dataset_source load_part(const idx_dataset_description& what,
                         const fs::path& data_dir, const std::string& stem) {
  auto images_file = find_file(what, data_dir, stem + "-images", "idx3-ubyte");
  auto labels_file = find_file(what, data_dir, stem + "-labels", "idx1-ubyte");
  auto images = read_idx_images(images_file);
  auto labels = read_idx_labels(labels_file, what.classes);
  if (images.count != labels.size()) {
    throw run_error(images_file.string() + " has " +
                    std::to_string(images.count) + " images, but " +
                    labels_file.string() + " has " +
                    std::to_string(labels.size()) + " labels");
  }
  if (images.count == 0) {
    throw run_error(images_file.string() + ": at byte 4: there are no images");
  }
  std::array<int64_t, 3> shape{1, images.rows, images.columns};
  auto store = std::make_shared<memory_store>(
    memory_store::parts{what.name, shape, what.classes,
                        std::move(images.pixels), std::move(labels)});
  return {store, shape, what.classes};
}

} // namespace

source_pair load_idx(const idx_dataset_description& what,
                     const fs::path& data_dir, data_part wanted) {
  source_pair result;
  if (wants_train(wanted))
    result.train = load_part(what, data_dir, what.train);
  if (wants_test(wanted))
    result.test = load_part(what, data_dir, what.test);
  if (wanted == data_part::both && result.train.shape != result.test.shape) {
    throw run_error(what.name + " in " + data_dir.string() +
                    ": the images for training and for testing differ in "
                    "size");
  }
  return result;
}

} // namespace troupe::data
