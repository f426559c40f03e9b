#include "config/failure.hpp"
#include "data/idx.hpp"
#include "data/sources.hpp"

#include <system_error>
#include <utility>
#include <vector>

namespace troupe::data {

namespace {

namespace fs = std::filesystem;

constexpr uint32_t classes = 10;

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

std::shared_ptr<const dataset> load_part(const idx_dataset_description& what,
                                         const fs::path& data_dir,
                                         const std::string& stem) {
  auto images_file = find_file(what, data_dir, stem + "-images", "idx3-ubyte");
  auto labels_file = find_file(what, data_dir, stem + "-labels", "idx1-ubyte");
  auto images = read_idx_images(images_file);
  auto labels = read_idx_labels(labels_file, classes);
  if (images.count != labels.size()) {
    throw run_error(images_file.string() + " has " +
                    std::to_string(images.count) + " images, but " +
                    labels_file.string() + " has " +
                    std::to_string(labels.size()) + " labels");
  }
  if (images.count == 0) {
    throw run_error(images_file.string() + ": at byte 4: there are no images");
  }
  return std::make_shared<const dataset>(
    dataset::parts{.name = what.name,
                   .shape = {1, images.rows, images.columns},
                   .classes = classes,
                   .pixels = std::move(images.pixels),
                   .labels = std::move(labels),
                   .mean = what.mean,
                   .deviation = what.deviation});
}

} // namespace

dataset_pair load_idx_dataset(const idx_dataset_description& what,
                              const fs::path& data_dir) {
  dataset_pair result{load_part(what, data_dir, "train"),
                      load_part(what, data_dir, "t10k")};
  if (result.train->shape() != result.test->shape()) {
    throw run_error(what.name + " in " + data_dir.string() +
                    ": the images for training and for testing differ in "
                    "size");
  }
  return result;
}

} // namespace troupe::data
