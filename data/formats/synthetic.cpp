#include "data/formats/sources.hpp"
#include "data/sampling/philox.hpp"

#include <algorithm>
#include <utility>

namespace troupe::data {

namespace {

/// A class is a picture of so many squares a side, in any size of image.
constexpr int64_t squares = 4;

/// All random streams here have this seed, so that the set does not depend on
/// the seed of the run.
constexpr uint64_t seed = 0;

/// The squares of a class: dark or light, [C, 4, 4].
std::vector<bool> picture_of(int64_t label, int64_t channels) {
  philox_stream random{seed, random_purpose::synthetic_class,
                       static_cast<uint64_t>(label)};
  std::vector<bool> out;
  for (int64_t i = 0; i < channels * squares * squares; ++i)
    out.push_back(random.next() >> 31 != 0);
  return out;
}

/// The class's picture with noise.
void draw(const std::array<int64_t, 3>& shape, const std::vector<bool>& picture,
          uint64_t sample, uint8_t* to) {
  philox_stream random{seed, random_purpose::synthetic_sample, sample};
  auto [channels, height, width] = shape;
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t y = 0; y < height; ++y)
      for (int64_t x = 0; x < width; ++x) {
        auto row = c * squares + y * squares / height;
        auto light =
          picture[static_cast<size_t>(row * squares + x * squares / width)];
        *to++ = static_cast<uint8_t>((light ? 96 : 32) + random.below(128));
      }
}

dataset_source draw_part(const config::synthetic_data& dataset, uint64_t first,
                         uint64_t count) {
  memory_store::parts out{.name = config::to_string(dataset),
                          .shape = dataset.shape,
                          .classes = dataset.classes,
                          .pixels = {},
                          .labels = {}};
  std::vector<std::vector<bool>> pictures;
  for (int64_t label = 0; label < dataset.classes; ++label)
    pictures.push_back(picture_of(label, dataset.shape[0]));
  auto pixels =
    static_cast<size_t>(dataset.shape[0] * dataset.shape[1] * dataset.shape[2]);
  out.pixels.resize(count * pixels);
  for (uint64_t i = 0; i < count; ++i) {
    auto label = (first + i) % static_cast<uint64_t>(dataset.classes);
    out.labels.push_back(static_cast<uint8_t>(label));
    draw(dataset.shape, pictures[label], first + i,
         out.pixels.data() + i * pixels);
  }
  return {std::make_shared<memory_store>(std::move(out)), dataset.shape,
          dataset.classes};
}

} // namespace

source_pair make_synthetic(const config::synthetic_data& dataset,
                           data_part wanted) {
  source_pair result;
  if (wants_train(wanted))
    result.train = draw_part(dataset, 0, dataset.samples);
  if (wants_test(wanted))
    result.test = draw_part(dataset, dataset.samples, dataset.test_samples());
  return result;
}

} // namespace troupe::data
