// A data set that Troupe does not know: noisy stripes in four directions, made
// when they are asked for.

#include <data/formats/registration.hpp>

#include <random>

namespace {

using namespace troupe::data;

constexpr int64_t side = 28;
constexpr uint64_t train_samples = 800;
constexpr uint64_t test_samples = 200;
constexpr int64_t directions = 4;

bool is_bright(int64_t direction, int64_t x, int64_t y, int64_t shift) {
  const int64_t along[] = {x, y, x + y, x + side - y};
  return (along[direction] + shift) / 4 % 2 == 0;
}

dataset_source make(uint64_t samples, uint64_t seed) {
  std::mt19937_64 random{seed};
  memory_store::parts out{"stripes", {1, side, side}, directions, {}, {}};
  for (uint64_t i = 0; i < samples; ++i) {
    auto direction = static_cast<int64_t>(i % directions);
    auto shift = static_cast<int64_t>(random() % 8);
    for (int64_t y = 0; y < side; ++y)
      for (int64_t x = 0; x < side; ++x)
        out.pixels.push_back(static_cast<uint8_t>(
          (is_bright(direction, x, y, shift) ? 128 : 0) + random() % 128));
    out.labels.push_back(static_cast<uint8_t>(direction));
  }
  const auto shape = out.shape;
  return {std::make_shared<memory_store>(std::move(out)), shape, directions};
}

const register_dataset mine{{.name = "stripes",
                             .image = "1x28x28",
                             .classes = "4",
                             .training = "none",
                             .files = "",
                             .scale = {{0.5}, {0.25}},
                             .load =
                               [](const auto&, uint64_t, data_part wanted) {
                                 source_pair out;
                                 if (wants_train(wanted))
                                   out.train = make(train_samples, 1);
                                 if (wants_test(wanted))
                                   out.test = make(test_samples, 2);
                                 return out;
                               },
                             .survey =
                               [](const auto&) {
                                 return source_survey{{1, side, side},
                                                      directions,
                                                      train_samples,
                                                      test_samples};
                               }}};

} // namespace
