#include "config/text/failure.hpp"
#include "data/dataset.hpp"
#include "data/formats/registry.hpp"
#include "data/formats/tar_shards.hpp"
#include "tests/data/image_files.hpp"
#include "tests/support/error_line.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <sys/stat.h>

#include <algorithm>

using namespace troupe;
using namespace troupe::data;
using namespace troupe::test;
using Catch::Matchers::ContainsSubstring;

namespace {

/// Reads from memory; notes the largest read.
struct memory {
  const bytes& from;

  size_t operator()(uint64_t at, std::span<uint8_t> to) const {
    auto n =
      at >= from.size() ? 0 : std::min<size_t>(to.size(), from.size() - at);
    std::copy_n(from.begin() + static_cast<ptrdiff_t>(at), n, to.begin());
    return n;
  }
};

std::vector<std::string> names_in(const bytes& file) {
  std::vector<std::string> out;
  for (const auto& each : index_tar(memory{file}, file.size(), "x"))
    out.push_back(each.name);
  return out;
}

std::string index_complaint(const bytes& file) {
  return error_line<run_error>(
    [&] { index_samples(memory{file}, file.size(), "x"); });
}

bytes picture_of(uint8_t shade) {
  return png_file(12, 10, 3, bytes(12 * 10 * 3, shade));
}

using names = std::vector<std::string>;

} // namespace

TEST_CASE("members are found with their bytes", "[tar]") {
  auto file =
    tar_file({member("dir/", {}, '5'), member("dir/a.txt", text("hello")),
              member("link", {}, '2'), member("b", bytes(1000, 7))});
  auto found = index_tar(memory{file}, file.size(), "x");
  REQUIRE(found.size() == 2);
  CHECK(found[0].name == "dir/a.txt");
  CHECK(std::string(&file[found[0].begin], &file[found[0].begin] + 5) ==
        "hello");
  CHECK(found[1].size == 1000);
  CHECK(found[1].end - found[1].header == 512 + 1024);
}

TEST_CASE("long names come from GNU's and pax headers", "[tar]") {
  std::string longer(150, 'n');
  auto gnu = member("././@LongLink", text(longer + '\0'), 'L') +
             member("short", text("1"));
  auto record = " path=" + longer + "\n";
  auto pax =
    member("PaxHeader", text(std::to_string(record.size() + 3) + record), 'x') +
    member("short", text("2"));
  auto file = tar_file({gnu, pax, member("plain", {})});
  CHECK(names_in(file) == names{longer, longer, "plain"});
  auto found = index_tar(memory{file}, file.size(), "x");
  CHECK(found[0].header == 0);
  CHECK(found[1].header == gnu.size());
}

TEST_CASE("a path that leaves the root is refused", "[tar]") {
  for (std::string name : {"/etc/passwd", "../a.png", "a/../../b.cls", ".."}) {
    auto line = index_complaint(
      tar_file({member("a.cls", text("1")), member(name, text("1"))}));
    CHECK(line == "x: at byte 1024: the path '" + name + "' leaves the root");
  }
  CHECK(names_in(tar_file({member("./a..b/..c", {})})) == names{"./a..b/..c"});
}

TEST_CASE("tar files that are damaged are refused with their place", "[tar]") {
  CHECK_THAT(index_complaint(text("short")), ContainsSubstring("too short"));
  auto good = tar_file({member("a", bytes(600, 1))});
  auto cut = good;
  cut.resize(1000);
  CHECK(index_complaint(cut) ==
        "x: at byte 0: the header promises 600 bytes, but "
        "the file holds 488 more");
  cut = member("a", {});
  cut.resize(700);
  CHECK(index_complaint(cut) ==
        "x: at byte 512: the file is cut off within a header");
  auto wrong = good;
  wrong[0] = 'b';
  CHECK(index_complaint(wrong) == "x: at byte 0: is no header of a tar file");
  CHECK_THAT(index_complaint(tar_file({tar_header("a", 077777777777, '0')})),
             ContainsSubstring("the header promises 8589934591 bytes"));
  CHECK_THAT(index_complaint(tar_file({member("p", text("9 nonsense"), 'x')})),
             ContainsSubstring("the extended header is damaged"));
  CHECK_THAT(index_complaint(member("p", text("a"), 'L')),
             ContainsSubstring("the file ends between a name and its member"));
}

TEST_CASE("samples are runs of one stem", "[tar]") {
  auto file =
    tar_file({member("d/1.cls", text("4\n")), member("d/1.JPG", text("image")),
              member("d/1.json", text("{}")), member("d/2.png", text("other")),
              member("d/2.cls", text(" 17 "))});
  auto found = index_samples(memory{file}, file.size(), "x");
  REQUIRE(found.size() == 2);
  CHECK(found[0].label == 4);
  CHECK(found[0].image == "d/1.JPG");
  CHECK(found[0].size == 5);
  CHECK(found[0].last == found[1].first);
  CHECK(found[1].label == 17);
}

TEST_CASE("a name with several dots keeps its label", "[tar]") {
  auto file = tar_file(
    {member("a 2.0 (x).png", text("1")), member("a 2.0 (x).cls", text("3")),
     member("b.1.cls", text("4")), member("b.1.json", text("{}")),
     member("b.1.jpg", text("1")), member("b.2.jpg", text("1")),
     member("b.2.CLS", text("5")), member("b.2.json", text("{}")),
     member("d.e/c.input.png", text("1")), member("d.e/c.cls", text("6")),
     member("d.e/c.seg.cls", text("mask"))});
  auto found = index_samples(memory{file}, file.size(), "x");
  REQUIRE(found.size() == 4);
  for (int64_t i = 0; i < 4; ++i)
    CHECK(found[static_cast<size_t>(i)].label == 3 + i);
  CHECK(found[1].image == "b.1.jpg");
  CHECK(found[0].first == 0);
  for (size_t i = 1; i < 4; ++i)
    CHECK(found[i].first == found[i - 1].last);
}

TEST_CASE("samples of one stem are told apart or refused", "[tar]") {
  auto said = [](const std::vector<std::string>& names) {
    std::vector<bytes> all;
    for (const auto& name : names)
      all.push_back(member(name, text("1")));
    return index_complaint(tar_file(all));
  };
  CHECK_THAT(said({"a.1.png", "a.2.png", "a.1.cls"}),
             ContainsSubstring("no 'a.2.cls' for 'a.2.png'"));
  CHECK_THAT(said({"a.1.png", "a.2.png", "a.1.cls", "a.2.cls"}),
             ContainsSubstring("image and label of 'a.2' apart"));
  CHECK_THAT(said({"a.1.png", "a.1.cls", "a.2.cls"}),
             ContainsSubstring("no image beside 'a.2.cls'"));
  CHECK_THAT(said({"a.1.png", "a.2.cls"}),
             ContainsSubstring("no a.cls beside its image"));
  CHECK_THAT(said({"a.png", "a.cls", "a.cls"}),
             ContainsSubstring("'a' has two labels"));
  CHECK_THAT(said({"a.png", "a.seg.png", "a.cls"}),
             ContainsSubstring("'a' has two images"));
}

TEST_CASE("members that are of no sample are left out and counted", "[tar]") {
  auto file = tar_file(
    {member("pax", text("12 size=999\n"), 'g'), member("./train/", {}, '5'),
     member("./._train", text("mac")), member("./train/._a.png", text("mac")),
     member("./train/a.png", text("1")), member("./train/._a.cls", text("mac")),
     member("./train/Thumbs.db", text("?")),
     member("./train/README", text("?")),
     member("./train/a.cls", text("7"), '7'),
     member("__MACOSX/train/b.png", text("mac")),
     member("PaxHeaders.9/b.png", text("pax")),
     member("./.cache/c.png", text("?")), member("link.png", {}, '2'),
     member("d.webp", text("1")), member("d.json", text("{}"))});
  left_out without;
  auto found = index_samples(memory{file}, file.size(), "x", &without);
  REQUIRE(found.size() == 1);
  CHECK(found[0].label == 7);
  CHECK(found[0].image == "./train/a.png");
  CHECK(
    without.text() ==
    "1 .json, 1 .webp, 1 link, 1 without an ending; hidden: 3 ._*, 1 .cache, "
    "1 PaxHeaders.9, 1 Thumbs.db, 1 __MACOSX");
}

TEST_CASE("all damaged shards are found at once", "[tar]") {
  scratch_folder in;
  auto good =
    tar_file({member("a.png", picture_of(9)), member("a.cls", text("0"))});
  for (std::string name : {"train-0", "train-2", "val-0"})
    in.write(name + ".tar", good);
  in.write("train-1.tar", text("no tar"));
  in.write("train-3.tar", tar_file({member("a.png", picture_of(9))}));
  in.write("val-1.tar", tar_file({member("b.png", picture_of(9)),
                                  member("b.cls", text("7"))}));
  config::data_settings settings;
  settings.dataset = "tar";
  settings.data_dir = in.path();
  damage_list damage;
  auto found = entry_of("tar").inspect(settings, damage);
  CHECK(found.train.store->size() == 2);
  CHECK(found.test.store->size() == 2);
  CHECK(found.test.classes == 8);
  REQUIRE(damage.size() == 2);
  CHECK_THAT(damage[0], ContainsSubstring("train-1.tar: at byte 0: "));
  CHECK_THAT(damage[1], ContainsSubstring("train-3.tar: at byte 0: "));
}

TEST_CASE("half samples are refused", "[tar]") {
  auto image = member("a.png", text("1"));
  CHECK(index_complaint(tar_file({image})) ==
        "x: at byte 0: the sample 'a' has no a.cls beside its image");
  CHECK_THAT(index_complaint(tar_file(
               {member("a.cls", text("1")), member("b.cls", text("1"))})),
             ContainsSubstring("'a' has no .jpg, .jpeg or .png"));
  CHECK_THAT(index_complaint(tar_file({image, member("a.jpg", text("1"))})),
             ContainsSubstring("'a' has two images"));
  CHECK_THAT(index_complaint(tar_file({image, member("a.cls", text("cat"))})),
             ContainsSubstring("has a label that is no number: 'cat'"));
  CHECK_THAT(
    index_complaint(tar_file({image, member("a.cls", text("9000000"))})),
    ContainsSubstring("the limit is 1000000"));
}

TEST_CASE("shards make a data set", "[tar]") {
  scratch_folder in;
  for (std::string shard : {"train-000", "train-001", "val-000"})
    in.write(
      shard + ".tar",
      tar_file({member("a.png", picture_of(9)), member("a.cls", text("0")),
                member("b.png", picture_of(99)), member("b.cls", text("2"))}));
  config::data_settings settings;
  settings.data_dir = in.path();
  settings.image_size = 8;
  for (const auto* name :
       {"tar", "tar(train=train-{000..001}.tar,val=val-000.tar)"}) {
    settings.dataset = name;
    auto pair = load_dataset(settings, 1);
    CHECK(pair.train->name() == name);
    CHECK(pair.train->size() == 4);
    CHECK(pair.test->size() == 2);
    CHECK(pair.train->classes() == 3);
    auto batch = pair.test->gather_range(0, 2, config::scalar_type::float32);
    CHECK(batch.inputs.sizes() == at::IntArrayRef{2, 3, 8, 8});
    CHECK(batch.targets.const_data_ptr<int64_t>()[1] == 2);
  }
  settings.dataset = "tar(train=train-{000..002}.tar,val=val-000.tar)";
  CHECK(error_line<run_error>([&] { load_dataset(settings, 1); }) ==
        (in.path() / "train-002.tar").string() + ": there is no such shard");
}

TEST_CASE("a pipe in the place of a shard is refused, not waited for",
          "[tar]") {
  scratch_folder in;
  auto pipe = (in.path() / "train.tar").string();
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(error_line<run_error>([&] { index_shard(pipe); }) ==
        pipe + ": cannot be read: it is not a regular file");
}
