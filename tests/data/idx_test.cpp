#include "config/text/failure.hpp"
#include "data/formats/idx.hpp"
#include "tests/data/idx_files.hpp"
#include "tests/support/error_line.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <sys/stat.h>

#include <numeric>

using namespace troupe;
using namespace troupe::data;
using namespace troupe::test;

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

namespace {

bytes some_pixels(size_t n) {
  bytes result(n);
  std::iota(result.begin(), result.end(), uint8_t{1});
  return result;
}

/// Reading must fail with one line that begins with the file and says `reason`.
void check_bad_images(const bytes& content, const std::string& reason) {
  scratch_folder folder;
  auto file = folder.write("images", content);
  auto line = error_line<run_error>([&] { read_idx_images(file); });
  CHECK_THAT(line, StartsWith(file.string() + ": ") &&
                     ContainsSubstring(reason) && !ContainsSubstring("\n"));
}

void check_bad_labels(const bytes& content, const std::string& reason) {
  scratch_folder folder;
  auto file = folder.write("labels", content);
  auto line = error_line<run_error>([&] { read_idx_labels(file, 10); });
  CHECK_THAT(line, StartsWith(file.string() + ": " + reason));
}

} // namespace

TEST_CASE("images are read from plain and gzip files alike", "[idx]") {
  scratch_folder folder;
  auto content = images_file(2, 3, 4, some_pixels(24));
  for (const auto& file : {folder.write("plain", content),
                           folder.write("packed", gzip(content))}) {
    auto images = read_idx_images(file);
    CHECK(images.count == 2);
    CHECK(images.rows == 3);
    CHECK(images.columns == 4);
    CHECK(images.pixels == some_pixels(24));
  }
}

TEST_CASE("labels are read from plain and gzip files alike", "[idx]") {
  scratch_folder folder;
  bytes labels{3, 0, 9, 9, 1};
  auto content = labels_file(5, labels);
  CHECK(read_idx_labels(folder.write("plain", content), 10) == labels);
  CHECK(read_idx_labels(folder.write("packed", gzip(content)), 10) == labels);
  CHECK(parse_idx_labels(content, 10, "memory") == labels);
}

TEST_CASE("files larger than one block are read whole", "[idx]") {
  scratch_folder folder;
  auto pixels = some_pixels(5 * 1000 * 1000);
  auto content = images_file(5, 1000, 1000, pixels);
  CHECK(read_idx_images(folder.write("plain", content)).pixels == pixels);
  CHECK(read_idx_images(folder.write("packed", gzip(content))).pixels ==
        pixels);
}

TEST_CASE("a file of another kind is refused", "[idx]") {
  check_bad_images({}, "at byte 0: not an IDX file of images: it begins with "
                       "nothing instead of 00 00 08 03");
  check_bad_images({'P', 'N', 'G', '!', 0, 0}, "begins with 50 4e 47 21");
  check_bad_images(labels_file(1, {1}), "begins with 00 00 08 01");
  check_bad_labels(images_file(1, 1, 1, {1}),
                   "at byte 0: not an IDX file of labels");
}

TEST_CASE("a header that is cut off is refused", "[idx]") {
  auto content = images_file(1, 1, 1, {});
  content.resize(10);
  check_bad_images(content, "at byte 10: the header is cut off");
  check_bad_images(gzip(content), "at byte 10: the header is cut off");
}

TEST_CASE("a plain file that is too short is refused", "[idx]") {
  check_bad_images(images_file(2, 3, 4, some_pixels(23)),
                   "at byte 16: the header promises 24 bytes, but the file "
                   "cannot hold more than 23");
  check_bad_labels(labels_file(9, {1, 2}),
                   "at byte 8: the header promises 9 bytes");
}

TEST_CASE("a gzip file that unpacks to too little is refused", "[idx]") {
  check_bad_images(gzip(images_file(2, 3, 4, some_pixels(20))),
                   "at byte 36: the file ends, but the header promises 4 more");
}

TEST_CASE("a gzip file that is cut off is refused", "[idx]") {
  auto content = gzip(images_file(100, 10, 10, some_pixels(10'000)));
  content.resize(content.size() / 2);
  check_bad_images(content, "the compressed data is cut off");
}

TEST_CASE("a gzip file with flipped bits is refused", "[idx]") {
  auto content = gzip(images_file(100, 10, 10, some_pixels(10'000)));
  content[content.size() - 6] ^= 0x55; // in the checksum
  check_bad_images(content, "the compressed data is damaged");
}

TEST_CASE("data behind the end is refused", "[idx]") {
  check_bad_images(images_file(1, 2, 2, some_pixels(5)),
                   "at byte 20: the file goes on");
  check_bad_images(gzip(images_file(1, 2, 2, some_pixels(5))),
                   "at byte 20: the file goes on");
}

TEST_CASE("absurd sizes are refused before memory is taken", "[idx]") {
  uint32_t most = 0xffffffff;
  check_bad_images(images_file(most, most, most, {}), "an absurd number");
  check_bad_images(images_file(1 << 20, 1 << 10, 2, {}),
                   "promises 2147483648 bytes; the limit is 1073741824");
  check_bad_images(images_file(1 << 20, 512, 1, {}),
                   "the file cannot hold more than 0");
  check_bad_images(gzip(images_file(1 << 20, 512, 1, some_pixels(99))),
                   "the file cannot hold more than");
  check_bad_images(images_file(3, 0, 5, {}), "the images have no pixels");
}

TEST_CASE("a gzip file cannot unpack past the limit", "[idx]") {
  scratch_folder folder;
  auto bomb = gzip(images_file(1000, 100, 100, bytes(10'000'000)));
  auto file = folder.write("bomb", bomb);
  REQUIRE(bomb.size() < 20'000);
  auto line = error_line<run_error>([&] { read_idx_images(file, 1'000'000); });
  CHECK_THAT(line, ContainsSubstring("limit is 1000000"));
}

TEST_CASE("a label out of range is refused where it stands", "[idx]") {
  check_bad_labels(labels_file(3, {9, 10, 11}),
                   "at byte 9: label 10 is not in 0 to 9");
}

TEST_CASE("what is not a file is refused", "[idx]") {
  scratch_folder folder;
  auto read = [&](const char* name) {
    return error_line<run_error>(
      [&] { read_idx_images(folder.path() / name); });
  };
  CHECK_THAT(read(""), ContainsSubstring("is not a regular file"));
  CHECK_THAT(read("absent"), ContainsSubstring("absent: cannot be opened"));
  auto pipe = folder.path() / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK_THAT(read("pipe"), ContainsSubstring("is not a regular file"));
}
