#include "data/formats/embedded.hpp"
#include "data/formats/idx.hpp"
#include "data/formats/sources.hpp"
#include "data/sampling/philox.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace troupe::data {

namespace {

constexpr int small_side = 8;
constexpr int large_side = 28;
constexpr int small_max = 16;
constexpr uint64_t test_samples = 360;
constexpr int classes = 10;

/// Where a large pixel's centre lies between two small pixels: its value is
/// (14 - share) / 14 of `low` and share / 14 of `high`.
struct between {
  int low;
  int high;
  int share;
};

constexpr int unit = 14;

/// Large pixel i has its centre at (i + 1/2) * 8/28 - 1/2 = (4 i - 5) / 14
/// small pixels.
constexpr between locate(int i) {
  int position = std::clamp(4 * i - 5, 0, unit * (small_side - 1));
  int low = position / unit;
  return {low, std::min(low + 1, small_side - 1), position % unit};
}

/// Bilinear, in integers; 0..16 becomes 0..255, rounded to nearest.
void enlarge(const uint8_t* from, uint8_t* to) {
  constexpr int whole = unit * unit * small_max;
  for (int i = 0; i < large_side; ++i) {
    auto y = locate(i);
    for (int j = 0; j < large_side; ++j) {
      auto x = locate(j);
      auto row = [&](int k) {
        const auto* pixels = from + k * small_side;
        return pixels[x.low] * (unit - x.share) + pixels[x.high] * x.share;
      };
      int sum = row(y.low) * (unit - y.share) + row(y.high) * y.share;
      *to++ = static_cast<uint8_t>((sum * 255 + whole / 2) / whole);
    }
  }
}

/// Marks the samples of the test part: from each class its share, rounded so
/// that the total is exact (largest remainders, lower class first).
std::vector<bool> choose_test_samples(const std::vector<uint8_t>& labels,
                                      uint64_t seed) {
  std::array<std::vector<uint64_t>, classes> members;
  for (uint64_t i = 0; i < labels.size(); ++i) {
    members[labels[i]].push_back(i);
  }
  std::array<uint64_t, classes> quota{};
  std::array<std::pair<uint64_t, int>, classes> remainders;
  uint64_t missing = test_samples;
  for (int c = 0; c < classes; ++c) {
    uint64_t share = members[c].size() * test_samples;
    quota[c] = share / labels.size();
    remainders[c] = {labels.size() - share % labels.size(), c};
    missing -= quota[c];
  }
  std::ranges::sort(remainders);
  for (uint64_t i = 0; i < missing; ++i) {
    ++quota[remainders[i].second];
  }
  std::vector<bool> chosen(labels.size());
  for (int c = 0; c < classes; ++c) {
    philox_stream random{seed, random_purpose::train_test_split,
                         static_cast<uint64_t>(c)};
    auto& pool = members[c];
    for (uint64_t i = 0; i < quota[c]; ++i) {
      auto left = static_cast<uint32_t>(pool.size() - i);
      std::swap(pool[i], pool[i + random.below(left)]);
      chosen[pool[i]] = true;
    }
  }
  return chosen;
}

} // namespace

source_pair load_digits(uint64_t seed) {
  auto images = parse_idx_images(embedded_digits_images, "bundled digits");
  auto labels =
    parse_idx_labels(embedded_digits_labels, classes, "bundled digits");
  auto chosen = choose_test_samples(labels, seed);
  auto part = [&](bool test) {
    memory_store::parts result{.name = "digits",
                               .shape = {1, large_side, large_side},
                               .classes = classes,
                               .pixels = {},
                               .labels = {}};
    constexpr size_t pixels = large_side * large_side;
    for (size_t i = 0; i < labels.size(); ++i) {
      if (chosen[i] == test) {
        auto end = result.pixels.size();
        result.pixels.resize(end + pixels);
        enlarge(images.pixels.data() + i * small_side * small_side,
                result.pixels.data() + end);
        result.labels.push_back(labels[i]);
      }
    }
    auto shape = result.shape;
    return dataset_source{std::make_shared<memory_store>(std::move(result)),
                          shape, classes};
  };
  return {part(false), part(true)};
}

} // namespace troupe::data
