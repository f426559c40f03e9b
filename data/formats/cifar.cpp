#include "data/formats/cifar.hpp"

#include "config/text/failure.hpp"
#include "data/formats/image_file.hpp"
#include "data/formats/sources.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

namespace troupe::data {

namespace {

namespace fs = std::filesystem;

constexpr size_t pixels = 3 * 32 * 32;

constexpr size_t most_batches = 99;

/// The pattern with the number in the place of its `#`, if it has one.
std::string numbered(std::string pattern, size_t number) {
  if (auto mark = pattern.find('#'); mark != std::string::npos)
    pattern.replace(mark, 1, std::to_string(number));
  return pattern;
}

/// The pattern's files in the folder: number 1, 2, ... without a gap.
std::vector<fs::path> files_in(const fs::path& folder, const std::string& name,
                               const std::string& pattern) {
  std::vector<fs::path> out;
  std::error_code error;
  auto last = pattern.find('#') == std::string::npos ? 1 : most_batches;
  for (size_t i = 1; i <= last; ++i) {
    auto file = folder / numbered(pattern, i);
    if (!fs::exists(file, error))
      continue;
    if (out.size() + 1 < i)
      throw run_error(name + ": " + file.string() + " is there, but no " +
                      numbered(pattern, out.size() + 1) + " before it");
    out.push_back(file);
  }
  return out;
}

/// Refuses the version for Python, which torchvision and the set's site offer
/// beside the binary one.
void refuse_python_version(const cifar_description& description,
                           const fs::path& data_dir) {
  std::error_code error;
  for (const auto& folder : {data_dir, data_dir / description.python})
    if (fs::is_regular_file(folder / description.python_file, error))
      throw run_error(description.name + ": " + folder.string() +
                      " holds the version for Python, which is not read; "
                      "trainer_node data fetch " +
                      description.name + " --data-dir " + data_dir.string() +
                      " gets the binary version");
}

/// The files of a part, in order.
std::vector<fs::path> files_of(const cifar_description& description,
                               const fs::path& data_dir,
                               const std::string& pattern) {
  for (const auto& folder : {data_dir, data_dir / description.folder})
    if (auto out = files_in(folder, description.name, pattern); !out.empty())
      return out;
  refuse_python_version(description, data_dir);
  throw run_error(description.name + ": no file " + numbered(pattern, 1) +
                  " in " + data_dir.string() + " or " +
                  (data_dir / description.folder).string());
}

/// Samples in so many bytes of a file.
uint64_t count_records(uint64_t bytes, uint32_t label_bytes,
                       const std::string& name) {
  auto record = label_bytes + pixels;
  auto count = bytes / record;
  if (count == 0 || bytes % record != 0)
    throw run_error(name + ": at byte " + std::to_string(count * record) +
                    ": the file is cut off: " + std::to_string(bytes) +
                    " bytes are not a number of records of " +
                    std::to_string(record));
  return count;
}

dataset_source load_cifar(const cifar_description& description,
                          const fs::path& data_dir, const std::string& pattern,
                          damage_list* damage) {
  std::array<int64_t, 3> shape{3, 32, 32};
  memory_store::parts out{description.name, shape, description.classes, {}, {}};
  for (const auto& file : files_of(description, data_dir, pattern))
    note_damage(damage, [&] {
      auto good = out.labels.size();
      auto bytes = read_file(file);
      try {
        parse_cifar(bytes, description.label_bytes, file.string(), out);
      } catch (const run_error&) {
        out.labels.resize(good);
        out.pixels.resize(good * pixels);
        throw;
      }
    });
  return {std::make_shared<memory_store>(std::move(out)), shape,
          description.classes};
}

uint64_t count_samples(const cifar_description& description,
                       const fs::path& data_dir, const std::string& pattern) {
  uint64_t out = 0;
  for (const auto& file : files_of(description, data_dir, pattern)) {
    std::error_code error;
    auto bytes = fs::file_size(file, error);
    if (error)
      throw run_error(file.string() + ": cannot be read: " + error.message());
    out += count_records(bytes, description.label_bytes, file.string());
  }
  return out;
}

} // namespace

void parse_cifar(std::span<const uint8_t> bytes, uint32_t label_bytes,
                 const std::string& name, memory_store::parts& to) {
  auto record = label_bytes + pixels;
  auto count = count_records(bytes.size(), label_bytes, name);
  to.pixels.reserve(to.pixels.size() + count * pixels);
  for (size_t i = 0; i < count; ++i) {
    auto at = i * record + label_bytes - 1;
    if (bytes[at] >= to.classes)
      throw run_error(name + ": at byte " + std::to_string(at) + ": label " +
                      std::to_string(bytes[at]) + " is not in 0 to " +
                      std::to_string(to.classes - 1));
    to.labels.push_back(bytes[at]);
    auto image = bytes.subspan(at + 1, pixels);
    to.pixels.insert(to.pixels.end(), image.begin(), image.end());
  }
}

source_pair load_cifar(const cifar_description& description,
                       const fs::path& data_dir, data_part wanted,
                       damage_list* damage) {
  source_pair result;
  if (wants_train(wanted))
    result.train = load_cifar(description, data_dir, description.train, damage);
  if (wants_test(wanted))
    result.test = load_cifar(description, data_dir, description.test, damage);
  return result;
}

source_survey survey_cifar(const cifar_description& description,
                           const fs::path& data_dir) {
  return {{3, 32, 32},
          description.classes,
          count_samples(description, data_dir, description.train),
          count_samples(description, data_dir, description.test)};
}

} // namespace troupe::data
