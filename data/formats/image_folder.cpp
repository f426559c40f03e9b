#include "data/formats/image_folder.hpp"

#include "config/text/failure.hpp"
#include "data/digest.hpp"
#include "data/formats/image_file.hpp"
#include "data/formats/sources.hpp"

#include <algorithm>
#include <iterator>
#include <span>
#include <system_error>
#include <utility>

namespace troupe::data {

namespace {

namespace fs = std::filesystem;

/// Limits the depth, since links among folders may go in a circle.
constexpr int deepest = 16;

[[noreturn]] void fail_in(const fs::path& where, const std::string& reason) {
  throw run_error(where.string() + ": " + reason);
}

/// The entries of a folder by name. Hidden ones are left out and counted in
/// `without`.
std::vector<fs::directory_entry> entries(const fs::path& folder,
                                         left_out& without) {
  std::error_code error;
  std::vector<fs::directory_entry> out;
  for (fs::directory_iterator i{folder, error}, end; !error && i != end;
       i.increment(error))
    if (auto name = i->path().filename().string(); is_hidden(name))
      without.add_hidden(name);
    else
      out.push_back(*i);
  if (error)
    fail_in(folder, "cannot be read: " + error.message());
  std::ranges::sort(out, {}, [](const auto& x) { return x.path().string(); });
  return out;
}

std::vector<fs::path> class_folders(const fs::path& folder, left_out& without) {
  std::error_code error;
  if (!fs::is_directory(folder, error))
    fail_in(folder,
            "is no folder; --dataset folder needs DIR/train/CLASS/IMAGE "
            "and DIR/val/CLASS/IMAGE");
  std::vector<fs::path> out;
  for (const auto& entry : entries(folder, without))
    if (entry.is_directory(error))
      out.push_back(entry.path());
    else
      without.add_without_class();
  if (out.empty())
    fail_in(folder, "has no folders, one for each class");
  return out;
}

std::vector<fs::path> class_folders(const fs::path& folder) {
  left_out not_said;
  return class_folders(folder, not_said);
}

/// The files of a folder and of those below.
void collect(const fs::path& folder, int depth, int64_t label,
             folder_index& to) {
  std::error_code error;
  std::vector<fs::path> below;
  for (const auto& entry : entries(folder, to.without)) {
    auto name = entry.path().filename().string();
    if (entry.is_directory(error))
      below.push_back(entry.path());
    else if (has_image_name(name))
      to.images.push_back({entry.path(), label});
    else
      to.without.add(name);
  }
  if (depth == deepest && !below.empty())
    fail_in(below.front(), "is too deep a folder; do links go in a circle?");
  for (const auto& each : below)
    collect(each, depth + 1, label, to);
}

/// By the whole path of the folder as text, then by name.
void sort_as_torchvision(std::span<folder_index::image> images) {
  std::ranges::sort(images, {}, [](const folder_index::image& x) {
    return std::pair{x.file.parent_path().string(), x.file.filename().string()};
  });
}

int64_t label_of(const fs::path& folder,
                 const std::vector<std::string>& classes) {
  auto found = std::ranges::find(classes, folder.filename().string());
  if (found == classes.end())
    fail_in(folder, "is a class that the images for training do not have");
  return found - classes.begin();
}

std::vector<std::string> names_of(const std::vector<fs::path>& folders) {
  std::vector<std::string> out;
  for (const auto& each : folders)
    out.push_back(each.filename().string());
  return out;
}

class folder_store final : public sample_store {
public:
  /// @param root The folder below which all of them lie.
  folder_store(const fs::path& root, std::vector<folder_index::image> images)
    : prefix_(root.native().size()), images_(std::move(images)) {
    // nop
  }

  uint64_t size() const noexcept override { return images_.size(); }

  int64_t label(uint64_t index) const override { return images_[index].label; }

  picture load(uint64_t index, const window_choice& choose) const override {
    const auto& file = images_[index].file;
    return decode_image(read_file(file), file.string(), choose);
  }

  /// Querying a file's length takes far longer than reading its name: of many
  /// files only some, evenly spread, are queried.
  uint64_t content_digest() const override {
    digest out;
    auto stride = std::max<size_t>(1, images_.size() / most_asked);
    for (size_t i = 0; i < images_.size(); ++i) {
      const auto& file = images_[i].file;
      out.add(std::string_view{file.native()}.substr(prefix_));
      if (i % stride != 0)
        continue;
      std::error_code absent;
      auto length = fs::file_size(file, absent);
      out.add(absent ? uint64_t{0} : static_cast<uint64_t>(length));
    }
    return out.value();
  }

  bool decodes() const noexcept override { return true; }

private:
  static constexpr size_t most_asked = 4096;

  size_t prefix_;
  std::vector<folder_index::image> images_;
};

dataset_source source_of(const fs::path& root, folder_index&& index,
                         size_t classes) {
  return {std::make_shared<folder_store>(root, std::move(index.images)),
          {3, 0, 0},
          static_cast<int64_t>(classes),
          std::move(index.without)};
}

folder_index index_class(const fs::path& folder, int64_t label) {
  folder_index out;
  collect(folder, 0, label, out);
  if (out.images.empty())
    fail_in(folder, "holds no .jpg, .jpeg or .png file" +
                      (out.without.empty() ? "" : ": " + out.without.text()));
  sort_as_torchvision(out.images);
  return out;
}

} // namespace

folder_index index_folder(const fs::path& folder,
                          const std::vector<std::string>& known,
                          damage_list* damage) {
  folder_index out;
  auto classes = class_folders(folder, out.without);
  out.classes = names_of(classes);
  for (const auto& each : classes)
    note_damage(damage, [&] {
      auto found =
        index_class(each, label_of(each, known.empty() ? out.classes : known));
      std::ranges::move(found.images, std::back_inserter(out.images));
      out.without.add(found.without);
    });
  return out;
}

fs::path find_test_folder(const fs::path& data_dir) {
  std::error_code error;
  for (const auto* name : {"val", "test"})
    if (fs::is_directory(data_dir / name, error))
      return data_dir / name;
  fail_in(data_dir, "has neither a folder val nor test");
}

source_pair load_folder(const fs::path& data_dir, data_part wanted,
                        damage_list* damage) {
  auto train = data_dir / "train";
  auto classes = names_of(class_folders(train));
  source_pair out;
  if (wants_train(wanted))
    out.train =
      source_of(train, index_folder(train, classes, damage), classes.size());
  if (wants_test(wanted)) {
    auto test = find_test_folder(data_dir);
    out.test =
      source_of(test, index_folder(test, classes, damage), classes.size());
  }
  return out;
}

source_survey survey_folder(const fs::path& data_dir) {
  auto train = index_folder(data_dir / "train");
  auto test = index_folder(find_test_folder(data_dir), train.classes);
  train.without.add(test.without);
  return {.shape = {3, 0, 0},
          .classes = static_cast<int64_t>(train.classes.size()),
          .in_memory = false,
          .without = std::move(train.without)};
}

} // namespace troupe::data
