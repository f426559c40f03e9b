#include "data/cifar.hpp"

#include "config/failure.hpp"
#include "data/image_file.hpp"
#include "data/sources.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

namespace troupe::data {

namespace {

namespace fs = std::filesystem;

constexpr size_t pixels = 3 * 32 * 32;

/// The files of a part, in order: all of `#` = 1, 2, ... that are there.
std::vector<fs::path> files_of(const cifar_description& what,
                               const fs::path& data_dir,
                               const std::string& pattern) {
  std::error_code error;
  auto mark = pattern.find('#');
  for (const auto& folder : {data_dir, data_dir / what.folder}) {
    std::vector<fs::path> out;
    for (int i = 1;; ++i) {
      auto name = pattern;
      if (mark != std::string::npos)
        name.replace(mark, 1, std::to_string(i));
      if (!fs::exists(folder / name, error))
        break;
      out.push_back(folder / name);
      if (mark == std::string::npos)
        break;
    }
    if (!out.empty())
      return out;
  }
  auto first = pattern;
  if (mark != std::string::npos)
    first.replace(mark, 1, "1");
  throw run_error(what.name + ": no file " + first + " in " +
                  data_dir.string() + " or " +
                  (data_dir / what.folder).string());
}

dataset_source load_part(const cifar_description& what,
                         const fs::path& data_dir, const std::string& pattern) {
  std::array<int64_t, 3> shape{3, 32, 32};
  memory_store::parts out{what.name, shape, what.classes, {}, {}};
  for (const auto& file : files_of(what, data_dir, pattern)) {
    auto bytes = read_file(file);
    parse_cifar(bytes, what.classes, what.label_bytes, file.string(),
                out.pixels, out.labels);
  }
  return {std::make_shared<memory_store>(std::move(out)), shape, what.classes};
}

} // namespace

void parse_cifar(std::span<const uint8_t> bytes, uint32_t classes,
                 uint32_t label_bytes, const std::string& name,
                 std::vector<uint8_t>& to_pixels,
                 std::vector<uint8_t>& to_labels) {
  auto record = label_bytes + pixels;
  auto count = bytes.size() / record;
  if (count == 0 || bytes.size() % record != 0)
    throw run_error(name + ": at byte " + std::to_string(count * record) +
                    ": the file is cut off: " + std::to_string(bytes.size()) +
                    " bytes are not a number of records of " +
                    std::to_string(record));
  to_pixels.reserve(to_pixels.size() + count * pixels);
  for (size_t i = 0; i < count; ++i) {
    auto at = i * record + label_bytes - 1;
    if (bytes[at] >= classes)
      throw run_error(name + ": at byte " + std::to_string(at) + ": label " +
                      std::to_string(bytes[at]) + " is not in 0 to " +
                      std::to_string(classes - 1));
    to_labels.push_back(bytes[at]);
    auto image = bytes.subspan(at + 1, pixels);
    to_pixels.insert(to_pixels.end(), image.begin(), image.end());
  }
}

source_pair load_cifar(const cifar_description& what,
                       const fs::path& data_dir) {
  return {load_part(what, data_dir, what.train),
          load_part(what, data_dir, what.test)};
}

} // namespace troupe::data
