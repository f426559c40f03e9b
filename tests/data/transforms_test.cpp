#include "data/dataset.hpp"
#include "data/transforms/transforms.hpp"
#include "tests/support/element_types.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

#include <map>
#include <numeric>
#include <random>
#include <set>

using namespace troupe;
using namespace troupe::data;
using namespace troupe::test;

namespace {

config::data_settings made_up(const std::string& augment) {
  config::data_settings out;
  out.dataset = "synthetic(shape=3x12x12,classes=3,samples=40)";
  out.augment = augment;
  return out;
}

transforms how(const std::string& augment, int64_t side = 0) {
  return {config::parse_augmentation(augment), side, 7};
}

/// Bytes 0, 1, 2, ... in one channel.
picture counting(int64_t height, int64_t width) {
  auto out = make_picture(height, width, 1);
  std::iota(out.owned.begin(), out.owned.end(), uint8_t{0});
  return out;
}

} // namespace

TEST_CASE("what is drawn is a function of seed, epoch and sample",
          "[transforms]") {
  auto uut = how("crop(padding=4)+flip+jitter(brightness=0.5,hue=0.2)");
  auto at = [&](uint64_t epoch, uint64_t index) {
    auto x = draw(uut, 32, 32, epoch, index);
    return std::tuple{x.crop.top, x.crop.left,   x.flip,
                      x.order,    *x.brightness, *x.hue};
  };
  CHECK(at(3, 5) == at(3, 5));
  std::set<decltype(at(0, 0))> all;
  for (uint64_t epoch = 0; epoch < 10; ++epoch)
    for (uint64_t index = 0; index < 10; ++index)
      all.insert(at(epoch, index));
  CHECK(all.size() == 100);
  ++uut.seed;
  CHECK(!all.contains(at(3, 5)));
}

TEST_CASE("crops and flips are drawn as often as they should", "[transforms]") {
  auto uut = how("crop(padding=2)+flip(p=0.25)");
  std::map<std::pair<int64_t, int64_t>, int> crops;
  int flips = 0;
  for (uint64_t i = 0; i < 10'000; ++i) {
    auto x = draw(uut, 8, 6, 0, i);
    ++crops[{x.crop.top, x.crop.left}];
    flips += x.flip;
    CHECK((x.crop.height == 8 && x.crop.width == 6));
  }
  CHECK(crops.size() == 25);
  for (const auto& [place, n] : crops) {
    CHECK((place.first >= -2 && place.first <= 2));
    CHECK((n > 300 && n < 500));
  }
  CHECK((flips > 2300 && flips < 2700));
}

TEST_CASE("a resized crop has the area and ratio that it should",
          "[transforms]") {
  auto uut = how("resized-crop");
  double area = 0;
  for (uint64_t i = 0; i < 5'000; ++i) {
    auto x = draw(uut, 300, 400, 0, i).crop;
    CHECK((x.top >= 0 && x.top + x.height <= 300));
    CHECK((x.left >= 0 && x.left + x.width <= 400));
    auto ratio = static_cast<double>(x.width) / static_cast<double>(x.height);
    CHECK((ratio > 0.73 && ratio < 1.36));
    area += static_cast<double>(x.height * x.width) / (300 * 400) / 5'000;
  }
  CHECK(area == Catch::Approx(0.434).margin(0.015));
  // Where none fits, the middle in the nearest ratio.
  auto strip = draw(uut, 10, 1000, 0, 0).crop;
  CHECK(strip.height == 10);
  CHECK(strip.width <= 14);
}

TEST_CASE("who gets which sample does not change it", "[transforms]") {
  auto set = load_dataset(made_up("crop(padding=3)+flip+jitter(brightness=0.4,"
                                  "contrast=0.4,saturation=0.4,hue=0.1)"),
                          1)
               .train;
  std::vector<int64_t> order(set->size());
  std::iota(order.begin(), order.end(), 0);
  std::mt19937 random{5};
  for (uint64_t epoch : {0u, 1u, 9u}) {
    std::shuffle(order.begin(), order.end(), random);
    auto all = set->gather(order, float32, epoch);
    for (int split = 0; split < 5; ++split) {
      std::vector<at::Tensor> parts;
      for (size_t at = 0; at < order.size();) {
        auto n = std::min<size_t>(1 + random() % 9, order.size() - at);
        parts.push_back(
          set->gather(std::span{order}.subspan(at, n), float32, epoch).inputs);
        at += n;
      }
      CHECK(at::equal(at::cat(parts), all.inputs));
    }
  }
}

TEST_CASE("each epoch changes samples anew", "[transforms]") {
  auto set = load_dataset(made_up("crop+flip"), 1).train;
  std::vector<int64_t> some{1, 2, 3};
  CHECK_FALSE(at::equal(set->gather(some, float32, 0).inputs,
                        set->gather(some, float32, 1).inputs));
  CHECK(at::equal(set->gather(some, float32, 4).inputs,
                  set->gather(some, float32, 4).inputs));
}

TEST_CASE("what is not asked for does not happen", "[transforms]") {
  auto plain = load_dataset(made_up("none"), 1);
  auto usual = load_dataset(made_up("auto"), 1);
  auto changed = load_dataset(made_up("crop+flip"), 1);
  auto all = [](const dataset& set) {
    return set.gather_range(0, set.size(), float32).inputs;
  };
  CHECK(at::equal(all(*plain.train), all(*usual.train)));
  CHECK_FALSE(at::equal(all(*plain.train), all(*changed.train)));
  CHECK(at::equal(all(*plain.test), all(*changed.test)));
}

TEST_CASE("a batch has the drawn window, black outside, turned",
          "[transforms]") {
  dataset::parts content{"x", {1, 4, 5}, 1, {}, {0}, {}};
  content.pixels.resize(20);
  std::iota(content.pixels.begin(), content.pixels.end(), uint8_t{10});
  auto store = std::make_shared<memory_store>(
    memory_store::parts{"x", content.shape, 1, content.pixels, content.labels});
  dataset uut{store,
              {.name = "x",
               .shape = content.shape,
               .classes = 1,
               .scale = {},
               .how = how("crop(padding=2)+flip")}};
  std::vector<int64_t> first{0};
  for (uint64_t epoch = 0; epoch < 40; ++epoch) {
    auto drawn = draw(how("crop(padding=2)+flip"), 4, 5, epoch, 0);
    auto inputs = uut.gather(first, float32, epoch).inputs;
    const auto* x = inputs.const_data_ptr<float>();
    for (int64_t i = 0; i < 20; ++i) {
      auto column = drawn.flip ? 4 - i % 5 : i % 5;
      auto row = drawn.crop.top + i / 5;
      column += drawn.crop.left;
      auto inside = row >= 0 && row < 4 && column >= 0 && column < 5;
      auto byte =
        inside ? content.pixels[static_cast<size_t>(row * 5 + column)] : 0;
      CHECK(x[i] == static_cast<float>(byte / 255.0));
    }
  }
}

TEST_CASE("resizing keeps what is even, and is PIL's for what is not",
          "[transforms]") {
  auto even = make_picture(30, 20, 3);
  std::fill(even.owned.begin(), even.owned.end(), uint8_t{77});
  for (auto [height, width] : {std::pair{7, 11}, std::pair{60, 50}}) {
    auto found = resize(even, height, width, {0, 0, height, width});
    CHECK(found.owned ==
          std::vector<uint8_t>(static_cast<size_t>(height * width * 3), 77));
  }
  // What Image.resize((2, 2), BILINEAR) of PIL makes of it.
  auto image = counting(4, 4);
  CHECK(resize(image, 2, 2, {0, 0, 2, 2}).owned ==
        std::vector<uint8_t>{4, 5, 10, 11});
}

TEST_CASE("part of a resized image is what the whole has there",
          "[transforms]") {
  auto image = counting(15, 17);
  for (auto [height, width] : {std::pair{8, 9}, std::pair{40, 9},
                               std::pair{15, 8}, std::pair{8, 17}}) {
    auto whole = resize(image, height, width, {0, 0, height, width});
    window part{2, 3, 5, 4};
    CHECK(resize(image, height, width, part).owned == cut(whole, part).owned);
  }
}

TEST_CASE("validation takes the middle, rounded as torchvision rounds",
          "[transforms]") {
  CHECK(resized_to_shorter(375, 500, 256) == window{0, 0, 256, 341});
  CHECK(resized_to_shorter(500, 375, 256) == window{0, 0, 341, 256});
  CHECK(middle(256, 341, 224) == window{16, 58, 224, 224});
  CHECK(middle(257, 259, 224) == window{16, 18, 224, 224});
}
