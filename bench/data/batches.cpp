// How fast one core makes batches: CIFAR's from memory, ImageNet's by decoding
// JPEG files. Compared with the rates that training needs.

#include "apps/scratch_folder.hpp"
#include "bench/topics.hpp"
#include "config/text/failure.hpp"
#include "data/dataset.hpp"
#include "data/sampling/philox.hpp"

#include <ATen/Parallel.h>
#include <jpeglib.h>

#include <cmath>
#include <cstdio>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

namespace troupe::bench {

namespace {

constexpr size_t batch_size = 128;

/// Images a second that a core should make.
constexpr double cifar_target = 100'000;
constexpr double jpeg_target = 150;

/// Makes so many batches of a set, epoch after epoch.
void gather(const data::dataset& set, size_t batches) {
  std::vector<int64_t> indices(batch_size);
  for (size_t i = 0; i < batches; ++i) {
    auto first = i * batch_size;
    std::iota(indices.begin(), indices.end(), static_cast<int64_t>(first));
    for (auto& x : indices)
      x %= static_cast<int64_t>(set.size());
    set.gather(indices, config::scalar_type::float32, first / set.size());
  }
}

void measure_set(const data::dataset& set, const std::string& name,
                 size_t batches, double target, size_t rounds, report& out) {
  out.progress(name);
  gather(set, 1);
  std::vector<double> rates;
  for (size_t i = 0; i < rounds; ++i) {
    auto took = measure([&] { gather(set, batches); });
    rates.push_back(static_cast<double>(batches * batch_size) /
                    took.cpu_seconds);
  }
  out.add(
    compare(name, median(rates), "1/s", "target", target, better::higher));
}

// -- photographs --------------------------------------------------------------

constexpr uint32_t height = 375;
constexpr uint32_t width = 500;

/// Smooth shapes with grain, about as hard to compress as a photograph.
std::vector<uint8_t> picture(uint64_t number) {
  data::philox_stream random{number, data::random_purpose::synthetic_sample, 0};
  double waves[6];
  for (auto& x : waves)
    x = random.uniform(0.01, 0.2);
  std::vector<uint8_t> out;
  for (uint32_t y = 0; y < height; ++y)
    for (uint32_t x = 0; x < width; ++x)
      for (int c = 0; c < 3; ++c) {
        auto value = 128 + 60 * std::sin(waves[c] * x) +
                     40 * std::cos(waves[c + 3] * y) + random.uniform(-20, 20);
        out.push_back(static_cast<uint8_t>(value < 0     ? 0
                                           : value > 255 ? 255
                                                         : value));
      }
  return out;
}

void write_jpeg(const std::filesystem::path& path,
                const std::vector<uint8_t>& pixels) {
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file{
    std::fopen(path.c_str(), "wb"), &std::fclose};
  if (!file)
    throw run_error(path.string() + ": cannot be written");
  jpeg_compress_struct image{};
  jpeg_error_mgr errors{};
  image.err = jpeg_std_error(&errors);
  jpeg_create_compress(&image);
  jpeg_stdio_dest(&image, file.get());
  image.image_width = width;
  image.image_height = height;
  image.input_components = 3;
  image.in_color_space = JCS_RGB;
  jpeg_set_defaults(&image);
  jpeg_set_quality(&image, 90, TRUE);
  jpeg_start_compress(&image, TRUE);
  while (image.next_scanline < height) {
    auto* row = const_cast<uint8_t*>(pixels.data()) +
                size_t{image.next_scanline} * width * 3;
    jpeg_write_scanlines(&image, &row, 1);
  }
  jpeg_finish_compress(&image);
  jpeg_destroy_compress(&image);
}

void measure_jpeg(const setting& how, report& out) {
  out.progress("writing photographs");
  app::scratch_folder folder;
  auto photographs = how.quick ? 8 : 256;
  for (std::string part : {"train", "val"}) {
    auto below = folder.path() / part / "class";
    std::filesystem::create_directories(below);
    for (int i = 0; i < (part == "train" ? photographs : 1); ++i)
      write_jpeg(below / (std::to_string(i) + ".jpg"),
                 picture(static_cast<uint64_t>(i)));
  }
  config::data_settings settings;
  settings.dataset = "folder";
  settings.data_dir = folder.path();
  measure_set(*data::load_dataset(settings, 1).train, "data/jpeg/resized_crop",
              how.quick ? 1 : 4, jpeg_target, how.quick ? 1 : 3, out);
  settings.augment = "none";
  measure_set(*data::load_dataset(settings, 1).train, "data/jpeg/resize",
              how.quick ? 1 : 2, jpeg_target, how.quick ? 1 : 3, out);
}

} // namespace

void measure_batches(const setting& how, report& out) {
  out.begin("data: images a second of one core");
  auto threads = at::get_num_threads();
  at::set_num_threads(1);
  config::data_settings settings;
  settings.dataset = "synthetic(shape=3x32x32,classes=10,samples=10000)";
  settings.augment = "crop(padding=4)+flip";
  measure_set(*data::load_dataset(settings, 1).train, "data/cifar/crop_flip",
              how.quick ? 2 : 400, cifar_target, how.quick ? 1 : 5, out);
  measure_jpeg(how, out);
  at::set_num_threads(threads);
}

} // namespace troupe::bench
