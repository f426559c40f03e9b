#include "tests/data/image_files.hpp"
#include "tests/fuzz/seeds.hpp"

namespace troupe::fuzz {

using namespace test;

namespace {

std::string text_of_bytes(const bytes& from) {
  return {from.begin(), from.end()};
}

inputs idx_seeds() {
  auto images = images_file(2, 3, 3, slopes(6, 3, 1));
  return {{"images", text_of_bytes(images)},
          {"images.gz", text_of_bytes(gzip(images))},
          {"labels", text_of_bytes(labels_file(4, {0, 1, 2, 9}))}};
}

inputs tar_seeds() {
  std::string longer(120, 'n');
  auto shard = tar_file(
    {member("a.png", text("image")), member("a.cls", text("3")),
     member("././@LongLink", text(longer), 'L'), member("b.png", text("image")),
     member("pax", text("12 path=b.c\n"), 'x'), member("b.cls", text("4"))});
  auto plain =
    tar_file({member("a.png", text("image")), member("a.cls", text("3"))});
  return {{"names", text_of_bytes(shard)}, {"shard", text_of_bytes(plain)}};
}

inputs image_seeds() {
  inputs out;
  for (uint32_t channels : {1u, 3u, 4u}) {
    auto name = std::to_string(channels);
    auto pixels = slopes(19, 21, channels);
    out[name + ".png"] = text_of_bytes(png_file(19, 21, channels, pixels));
    out[name + ".jpg"] = text_of_bytes(jpeg_file(19, 21, channels, pixels));
    out[name + "-progressive.jpg"] =
      text_of_bytes(jpeg_file(19, 21, channels, pixels, true));
  }
  return out;
}

} // namespace

inputs data_seeds(std::string_view format) {
  if (format == "idx")
    return idx_seeds();
  if (format == "cifar")
    return {{"one", text_of_bytes(cifar_record({3}, 10))},
            {"two", text_of_bytes(cifar_record({7, 42}, 10))}};
  if (format == "tar")
    return tar_seeds();
  if (format == "image")
    return image_seeds();
  return {};
}

} // namespace troupe::fuzz
