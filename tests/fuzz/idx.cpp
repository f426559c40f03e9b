#include "data/formats/idx.hpp"

#include "tests/fuzz/memory_file.hpp"
#include "tests/fuzz/targets.hpp"

namespace troupe::fuzz {

namespace {

constexpr uint64_t most_bytes = 1 << 20;
constexpr uint32_t classes = 10;

bool in_memory(bytes_view data) {
  auto images = taken([&] {
    auto found = data::parse_idx_images(data, "x");
    require(found.pixels.size() == found.count * found.rows * found.columns,
            "pixels of each image");
  });
  auto labels = taken([&] { data::parse_idx_labels(data, classes, "x"); });
  return images || labels;
}

/// Reads a file, which may be gzip.
bool as_file(bytes_view data) {
  memory_file file{data};
  auto images = taken([&] { data::read_idx_images(file.path(), most_bytes); });
  auto labels =
    taken([&] { data::read_idx_labels(file.path(), classes, most_bytes); });
  return images || labels;
}

} // namespace

bool idx(bytes_view data) {
  auto plain = in_memory(data);
  return as_file(data) || plain;
}

} // namespace troupe::fuzz
