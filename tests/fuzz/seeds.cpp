// fuzz_seeds FOLDER: writes good files of each format, for the fuzzer to begin
// with.

#include "tests/data/image_files.hpp"

#include <cstdio>
#include <filesystem>
#include <fstream>

using namespace troupe::test;

namespace {

void write(const std::filesystem::path& path, const bytes& content) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream out{path, std::ios::binary};
  out.write(reinterpret_cast<const char*>(content.data()),
            static_cast<std::streamsize>(content.size()));
}

} // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: fuzz_seeds FOLDER\n", stderr);
    return 2;
  }
  std::filesystem::path to{argv[1]};
  auto images = images_file(2, 3, 3, slopes(6, 3, 1));
  write(to / "idx" / "images", images);
  write(to / "idx" / "images.gz", gzip(images));
  write(to / "idx" / "labels", labels_file(4, {0, 1, 2, 9}));
  write(to / "cifar" / "one", cifar_record({3}, 10));
  write(to / "cifar" / "two", cifar_record({7, 42}, 10));
  std::string longer(120, 'n');
  write(to / "tar" / "shard",
        tar_file({member("a.png", text("image")), member("a.cls", text("3")),
                  member("././@LongLink", text(longer), 'L'),
                  member("b.png", text("image")),
                  member("pax", text("12 path=b.c\n"), 'x'),
                  member("b.cls", text("4"))}));
  for (uint32_t channels : {1u, 3u, 4u}) {
    auto name = std::to_string(channels);
    auto pixels = slopes(19, 21, channels);
    write(to / "image" / (name + ".png"), png_file(19, 21, channels, pixels));
    write(to / "image" / (name + ".jpg"), jpeg_file(19, 21, channels, pixels));
    write(to / "image" / (name + "-progressive.jpg"),
          jpeg_file(19, 21, channels, pixels, true));
  }
}
