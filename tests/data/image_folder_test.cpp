#include "config/text/failure.hpp"
#include "data/dataset.hpp"
#include "data/formats/image_folder.hpp"
#include "data/formats/registry.hpp"
#include "tests/data/image_files.hpp"
#include "tests/support/element_types.hpp"
#include "tests/support/error_line.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <sys/stat.h>

using namespace troupe;
using namespace troupe::data;
using namespace troupe::test;
using Catch::Matchers::ContainsSubstring;

namespace {

bytes shade(uint8_t of) {
  return png_file(20, 30, 3, bytes(20 * 30 * 3, of));
}

config::data_settings settings_for(const scratch_folder& in) {
  config::data_settings out;
  out.dataset = "folder";
  out.data_dir = in.path();
  out.image_size = 16;
  return out;
}

/// Two classes with three images for training, one for testing.
void write_folders(scratch_folder& in) {
  for (std::string name : {"cat", "dog"})
    for (auto i : {0, 1, 2})
      in.write("train/" + name + "/" + std::to_string(i) + ".png",
               shade(static_cast<uint8_t>(100 * i + (name == "dog"))));
  in.write("val/cat/0.jpg", jpeg_file(40, 20, 3, slopes(40, 20, 3)));
  in.write("val/dog/0.JPEG", jpeg_file(20, 40, 1, slopes(20, 40, 1)));
}

std::string load_complaint(const config::data_settings& settings) {
  return error_line<run_error>([&] { load_dataset(settings, 1); });
}

} // namespace

TEST_CASE("a folder for each class makes a data set", "[folder]") {
  scratch_folder in;
  write_folders(in);
  in.write("train/cat/notes.txt", text("no image"));
  auto pair = load_dataset(settings_for(in), 1);
  CHECK(pair.train->size() == 6);
  CHECK(pair.train->classes() == 2);
  CHECK(pair.train->shape() == std::vector<int64_t>{3, 16, 16});
  auto test = pair.test->gather_range(0, 2, float32);
  CHECK(test.inputs.sizes() == at::IntArrayRef{2, 3, 16, 16});
  CHECK(test.targets.const_data_ptr<int64_t>()[1] == 1);
}

TEST_CASE("files that are no images are counted by their endings", "[folder]") {
  scratch_folder in;
  write_folders(in);
  for (std::string name : {"a.webp", "b.WebP", "x/c.bmp", "README", ".d.png"})
    in.write("train/cat/" + name, shade(1));
  in.write("train/lost.png", shade(1));
  auto found = index_folder(in.path() / "train");
  CHECK(found.images.size() == 6);
  CHECK(found.without.text() ==
        "2 .webp, 1 .bmp, 1 without an ending; 1 beside the classes; "
        "hidden: 1 .d.png");
  in.write("train/webp/a.webp", shade(1));
  CHECK(error_line<run_error>([&] { index_folder(in.path() / "train"); }) ==
        (in.path() / "train/webp").string() +
          ": holds no .jpg, .jpeg or .png file: 1 .webp");
}

TEST_CASE("hidden folders and files are no part of a set", "[folder]") {
  scratch_folder in;
  write_folders(in);
  for (std::string part : {"train", "val"})
    for (std::string name :
         {"/.ipynb_checkpoints/0.png", "/__MACOSX/cat/0.png",
          "/cat/.ipynb_checkpoints/0.png", "/cat/._0.png", "/cat/._1.png",
          "/dog/Thumbs.db", "/lost+found/0.png", "/.DS_Store"})
      in.write(part + name, shade(1));
  auto pair = load_dataset(settings_for(in), 1);
  CHECK(pair.train->classes() == 2);
  CHECK(pair.train->size() == 6);
  CHECK(pair.test->size() == 2);
  auto hidden = std::string{
    "hidden: 2 ._*, 2 .ipynb_checkpoints, 1 .DS_Store, 1 Thumbs.db, "
    "1 __MACOSX, 1 lost+found"};
  CHECK(index_folder(in.path() / "val").without.text() == hidden);
}

TEST_CASE("many endings are counted, and the most frequent named", "[folder]") {
  left_out it;
  CHECK(it.empty());
  for (int i = 0; i < 12; ++i)
    it.add("x." + std::to_string(i));
  for (std::string name : {"a.tiff", "b.TIFF", "no.such ending as this"})
    it.add(name);
  CHECK(it.text() == "2 .tiff, 1 .0, 1 .1, 1 .10, 1 .11, 1 .2, 1 .3, 1 .4, "
                     "6 others");
}

TEST_CASE("all classes without a good image are found at once", "[folder]") {
  scratch_folder in;
  write_folders(in);
  for (std::string name :
       {"train/bird/a.gif", "val/bird/a.gif", "val/zebra/0.png"})
    in.write(name, shade(1));
  config::data_settings settings = settings_for(in);
  damage_list damage;
  auto found = entry_of("folder").inspect(settings, damage);
  CHECK(found.train.store->size() == 6);
  CHECK(found.test.store->size() == 2);
  REQUIRE(damage.size() == 3);
  CHECK_THAT(damage[0], ContainsSubstring("train/bird: holds no "));
  CHECK_THAT(damage[1], ContainsSubstring("val/bird: holds no "));
  CHECK_THAT(damage[2], ContainsSubstring("val/zebra: is a class that "));
}

TEST_CASE("images are in the order of folders, then names", "[folder]") {
  scratch_folder in;
  for (std::string file : {"a/2.png", "a/10.png", "a/x/1.png", "a/x-y/1.png",
                           "a/x/z/1.png", "B/1.png"})
    in.write(file, shade(1));
  auto found = index_folder(in.path());
  CHECK(found.classes == std::vector<std::string>{"B", "a"});
  std::vector<std::string> names;
  for (const auto& each : found.images)
    names.push_back(each.file.lexically_relative(in.path()).string());
  CHECK(names == std::vector<std::string>{"B/1.png", "a/10.png", "a/2.png",
                                          "a/x/1.png", "a/x-y/1.png",
                                          "a/x/z/1.png"});
}

TEST_CASE("test is another name of val", "[folder]") {
  scratch_folder in;
  write_folders(in);
  std::filesystem::rename(in.path() / "val", in.path() / "test");
  CHECK(load_dataset(settings_for(in), 1).test->size() == 2);
}

TEST_CASE("folders that are no set are refused by name", "[folder]") {
  scratch_folder in;
  auto settings = settings_for(in);
  CHECK_THAT(load_complaint(settings),
             ContainsSubstring("/train: is no folder"));
  write_folders(in);
  std::filesystem::create_directories(in.path() / "train/empty");
  CHECK(load_complaint(settings) == (in.path() / "train/empty").string() +
                                      ": holds no .jpg, .jpeg or .png file");
  std::filesystem::remove(in.path() / "train/empty");
  in.write("val/bird/0.png", shade(1));
  CHECK(load_complaint(settings) ==
        (in.path() / "val/bird").string() +
          ": is a class that the images for training do not have");
}

TEST_CASE("a damaged image ends the run or is done without", "[folder]") {
  scratch_folder in;
  write_folders(in);
  auto bad = in.write("train/cat/1.png", text("not a png")).string();
  in.write("val/cat/0.jpg", text("not a jpeg"));
  auto settings = settings_for(in);
  auto strict = load_dataset(settings, 1);
  auto line =
    error_line<run_error>([&] { strict.train->gather_range(0, 6, float32); });
  CHECK(line == bad + ": at byte 0: is neither a JPEG nor a PNG image");
  settings.on_bad_sample = config::bad_sample_rule::skip;
  auto lenient = load_dataset(settings, 1);
  auto train = lenient.train->gather_range(0, 6, float32);
  CHECK(train.samples == 6); // The next takes its place.
  CHECK(lenient.train->skipped() == 1);
  CHECK(lenient.train->newly_skipped() == std::vector<std::string>{line});
  CHECK(lenient.train->newly_skipped().empty());
  auto test = lenient.test->gather_range(0, 2, float32);
  CHECK(test.samples == 1);
  CHECK(test.inputs.size(0) == 1);
  CHECK(test.targets.const_data_ptr<int64_t>()[0] == 1);
  CHECK(lenient.test->skipped() == 1);
}

TEST_CASE("a pipe among the images is a damaged one, not waited for",
          "[folder]") {
  scratch_folder in;
  write_folders(in);
  auto pipe = (in.path() / "train/cat/3.jpg").string();
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  auto settings = settings_for(in);
  auto strict = load_dataset(settings, 1);
  CHECK(error_line<run_error>([&] {
          strict.train->gather_range(0, strict.train->size(), float32);
        }) == pipe + ": cannot be read: it is not a regular file");
  settings.on_bad_sample = config::bad_sample_rule::skip;
  auto lenient = load_dataset(settings, 1);
  CHECK(lenient.train->gather_range(0, 7, float32).samples == 7);
  CHECK(lenient.train->skipped() == 1);
}

TEST_CASE("a set without one good image is refused", "[folder]") {
  scratch_folder in;
  write_folders(in);
  for (std::string name : {"cat", "dog"})
    for (auto i : {0, 1, 2})
      in.write("train/" + name + "/" + std::to_string(i) + ".png", {});
  auto settings = settings_for(in);
  settings.on_bad_sample = config::bad_sample_rule::skip;
  auto set = load_dataset(settings, 1).train;
  auto line = error_line<run_error>([&] { set->gather_range(0, 1, float32); });
  CHECK(line == "folder: none of the 6 samples can be read");
}
