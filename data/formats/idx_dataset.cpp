#include "config/text/failure.hpp"
#include "data/formats/idx.hpp"
#include "data/formats/sources.hpp"

#include <array>
#include <system_error>
#include <utility>
#include <vector>

namespace troupe::data {

namespace {

namespace fs = std::filesystem;

std::vector<fs::path> folders(const idx_dataset_description& description,
                              const fs::path& data_dir) {
  return {data_dir, data_dir / "raw", data_dir / description.folder / "raw"};
}

/// @param stem, kind For example "train-images" and "idx3-ubyte".
fs::path find_file(const idx_dataset_description& description,
                   const fs::path& data_dir, const std::string& stem,
                   const std::string& kind) {
  std::error_code error;
  for (const auto& folder : folders(description, data_dir)) {
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
  for (const auto& folder : folders(description, data_dir)) {
    tried += (tried.empty() ? "" : ", ") + folder.string();
  }
  throw run_error(description.name + ": no file " + stem + "-" + kind + " or " +
                  stem + "." + kind + " (or with .gz) in any of: " + tried);
}

struct part_files {
  fs::path images;
  fs::path labels;
};

part_files find_part(const idx_dataset_description& description,
                     const fs::path& data_dir, const std::string& stem) {
  return {find_file(description, data_dir, stem + "-images", "idx3-ubyte"),
          find_file(description, data_dir, stem + "-labels", "idx1-ubyte")};
}

void require_as_many(const part_files& files, uint64_t images,
                     uint64_t labels) {
  if (images != labels) {
    throw run_error(files.images.string() + " has " + std::to_string(images) +
                    " images, but " + files.labels.string() + " has " +
                    std::to_string(labels) + " labels");
  }
  if (images == 0) {
    throw run_error(files.images.string() + ": at byte 4: there are no images");
  }
}

dataset_source load_idx(const idx_dataset_description& description,
                        const part_files& files) {
  auto images = read_idx_images(files.images);
  auto labels = read_idx_labels(files.labels, description.classes);
  require_as_many(files, images.count, labels.size());
  std::array<int64_t, 3> shape{1, images.rows, images.columns};
  auto store = std::make_shared<memory_store>(
    memory_store::parts{description.name, shape, description.classes,
                        std::move(images.pixels), std::move(labels)});
  return {store, shape, description.classes};
}

idx_header survey_part(const idx_dataset_description& description,
                       const fs::path& data_dir, const std::string& stem) {
  auto files = find_part(description, data_dir, stem);
  auto images = read_idx_images_header(files.images);
  require_as_many(files, images.count,
                  read_idx_labels_header(files.labels).count);
  return images;
}

void require_same_size(const idx_dataset_description& description,
                       const fs::path& data_dir, bool same) {
  if (!same) {
    throw run_error(description.name + " in " + data_dir.string() +
                    ": the images for training and for testing differ in "
                    "size");
  }
}

} // namespace

source_pair load_idx(const idx_dataset_description& description,
                     const fs::path& data_dir, data_part wanted,
                     damage_list* damage) {
  source_pair result;
  auto load = [&](const std::string& stem, dataset_source& to) {
    note_damage(damage, [&] {
      to = load_idx(description, find_part(description, data_dir, stem));
    });
  };
  if (wants_train(wanted))
    load(description.train, result.train);
  if (wants_test(wanted))
    load(description.test, result.test);
  if (result.train.store && result.test.store)
    require_same_size(description, data_dir,
                      result.train.shape == result.test.shape);
  return result;
}

source_survey survey_idx(const idx_dataset_description& description,
                         const fs::path& data_dir) {
  auto train = survey_part(description, data_dir, description.train);
  auto test = survey_part(description, data_dir, description.test);
  require_same_size(description, data_dir,
                    train.rows == test.rows && train.columns == test.columns);
  return {{1, train.rows, train.columns},
          description.classes,
          train.count,
          test.count};
}

} // namespace troupe::data
