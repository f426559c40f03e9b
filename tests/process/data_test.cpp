// Data sets of files through the whole program: what users train, check and
// split.

#include "tests/data/image_files.hpp"
#include "tests/process/process_fixture.hpp"

#include <catch2/catch_test_macros.hpp>

#include <fstream>

using namespace troupe::testing;
namespace fs = std::filesystem;
namespace files = troupe::test;
using files::operator+;

namespace {

constexpr std::chrono::seconds whole_run{200};

void write(const fs::path& path, const files::bytes& content) {
  fs::create_directories(path.parent_path());
  std::ofstream out{path, std::ios::binary};
  out.write(reinterpret_cast<const char*>(content.data()),
            static_cast<std::streamsize>(content.size()));
}

files::bytes records(uint32_t count) {
  files::bytes out;
  for (uint32_t i = 0; i < count; ++i)
    out = out + files::cifar_record({static_cast<uint8_t>(i % 10)},
                                    static_cast<uint8_t>(20 * (i % 10)));
  return out;
}

/// Of CIFAR-10's shape: two batches of 20, ten for testing.
void write_cifar(const fs::path& folder) {
  write(folder / "cifar-10-batches-bin/data_batch_1.bin", records(20));
  write(folder / "cifar-10-batches-bin/data_batch_2.bin", records(20));
  write(folder / "cifar-10-batches-bin/test_batch.bin", records(10));
}

files::bytes image(uint8_t shade) {
  return files::jpeg_file(24, 40, 3, files::bytes(24 * 40 * 3, shade));
}

/// Two classes of dark and light images.
void write_folder(const fs::path& folder) {
  for (std::string part : {"train", "val"})
    for (int i = 0; i < 8; ++i) {
      auto shade = static_cast<uint8_t>(40 + i);
      auto name = std::to_string(i) + ".jpg";
      write(folder / part / "dark" / name, image(shade));
      write(folder / part / "light" / name,
            image(static_cast<uint8_t>(shade + 150)));
    }
}

void write_shards(const fs::path& folder) {
  for (std::string part : {"train-0", "train-1", "val-0"}) {
    std::vector<files::bytes> members;
    for (int i = 0; i < 8; ++i) {
      auto stem = std::to_string(i);
      members.push_back(files::member(
        stem + ".jpg", image(static_cast<uint8_t>(i % 2 == 0 ? 40 : 200))));
      members.push_back(
        files::member(stem + ".cls", files::text(std::to_string(i % 2))));
    }
    write(folder / (part + ".tar"), files::tar_file(members));
  }
}

} // namespace

TEST_CASE("ResNet-18 trains on CIFAR's files across processes, and resumes") {
  process_fixture on;
  write_cifar(on.home() / "data");
  const flags all{"--network",    "resnet18_cifar",
                  "--dataset",    "cifar10",
                  "--data-dir",   (on.home() / "data").string(),
                  "--workers",    "2",
                  "--threads",    "1",
                  "--shards",     "1",
                  "--eval-freq",  "100",
                  "--batch-size", "4"};
  // The others take the data set from the parameter server, not its folder.
  const flags mine{"--data-dir", (on.home() / "data").string(), "--threads",
                   "1"};
  for (const auto& more :
       {flags{"--max-steps", "3"}, flags{"--max-steps", "6", "--resume"}}) {
    auto whole = all;
    whole.insert(whole.end(), more.begin(), more.end());
    auto server = on.listening_server(whole);
    auto evaluator = on.evaluator(mine);
    auto one = on.worker(mine);
    auto other = on.worker(mine);
    check_end(server, 0, whole_run);
    check_end(evaluator, 0);
    check_end(one, 0);
    check_end(other, 0);
  }
  CHECK(on.summary()["steps"] == 6);
  CHECK(on.summary()["samples_applied"] == 6 * 2 * 4);
  CHECK(committed_of(on.metrics()).resumes == 1);
}

TEST_CASE("a virtual run on images is reproducible, whoever gets which") {
  process_fixture on;
  write_folder(on.home() / "data");
  std::vector<std::string> sums;
  for (const auto* name : {"one", "two"}) {
    auto who =
      on.start(name, {"--simulate",
                      "--clock",
                      "virtual",
                      "--network",
                      "resnet20",
                      "--dataset",
                      "folder",
                      "--data-dir",
                      "data",
                      "--image-size",
                      "32",
                      "--batch-size",
                      "4",
                      "--workers",
                      "2",
                      "--max-steps",
                      "5",
                      "--augment",
                      "resized-crop+flip+jitter(brightness=0.4,hue=0.1)",
                      "--train-dir",
                      name});
    check_end(who, 0, whole_run);
    sums.push_back(read_summary(on.home() / name)["state_sha256"]);
  }
  CHECK(sums[0] == sums[1]);
}

TEST_CASE("a damaged image ends a run with its name, or is done without") {
  process_fixture on;
  write_folder(on.home() / "data");
  write(on.home() / "data/train/dark/3.jpg", files::text("no image"));
  const flags all{"--simulate", "--network",    "resnet20", "--dataset",
                  "folder",     "--data-dir",   "data",     "--image-size",
                  "32",         "--batch-size", "4",        "--workers",
                  "1",          "--threads",    "1",        "--epochs",
                  "1"};
  auto strict = all;
  strict.insert(strict.end(), {"--train-dir", "strict"});
  auto who = on.start("strict", strict);
  CHECK(who.wait() == 1);
  CHECK(who.err() == "trainer_node: data/train/dark/3.jpg: at byte 0: is "
                     "neither a JPEG nor a PNG image\n");
  auto lenient = all;
  lenient.insert(lenient.end(),
                 {"--train-dir", "lenient", "--on-bad-sample", "skip"});
  auto other = on.start("lenient", lenient);
  check_end(other, 0, whole_run);
  CHECK(
    other.said("skipped      data/train/dark/3.jpg: at byte 0: is neither "));
  CHECK(read_summary(on.home() / "lenient")["samples_applied"] == 16);
  CHECK(read_summary(on.home() / "lenient")["samples_skipped"] == 1);
}

TEST_CASE("a first try that made no update does not block the second") {
  process_fixture on;
  for (std::string part : {"train", "val"})
    for (std::string name : {"dark", "light"})
      write(on.home() / "data" / part / name / "0.jpg",
            files::text("no image"));
  const flags all{"--simulate", "--network",    "resnet20", "--dataset",
                  "folder",     "--data-dir",   "data",     "--image-size",
                  "32",         "--batch-size", "2",        "--workers",
                  "1",          "--threads",    "1",        "--max-steps",
                  "2",          "--train-dir",  "run"};
  auto first = on.start("first", all);
  CHECK(first.wait() == 1);
  write_folder(on.home() / "data");
  write(on.home() / "data/train/dark/1.webp", files::text("?"));
  auto second = on.start("second", all);
  check_end(second, 0, whole_run);
  CHECK(second.said("left out     train: 1 \\.webp\n"));
  CHECK(second.said("replaced     the run in run, which made no update\n"));
  CHECK(read_summary(on.home() / "run")["steps"] == 2);
  auto third = on.start("third", all);
  CHECK(third.wait() == 2);
}

TEST_CASE("a check looks for files and shows memory, but reads no sample") {
  process_fixture on;
  for (std::string part : {"train", "val"})
    for (std::string name : {"cat", "dog"})
      write(on.home() / "images" / part / name / "1.jpg",
            files::text("no image"));
  write(on.home() / "images/train/cat/2.webp", files::text("?"));
  write(on.home() / "images/val/.cache/1.png", files::text("?"));
  const flags all{"--check", "--network",  "resnet18", "--dataset",
                  "folder",  "--workers",  "2",        "--role",
                  "ps",      "--data-dir", "images"};
  auto plan = on.start("plan", all);
  check_end(plan, 0);
  CHECK(plan.said("samples are not counted here; 2 classes\n"
                  " +left out: 1 \\.webp; hidden: 1 \\.cache\n"));
  CHECK(plan.said("memory +the parameter server \\d+\\.\\d MB at most: "
                  "versions of the weights "));
  CHECK(plan.said("\n +a worker \\d+\\.\\d MB at most besides forward and "
                  "backward: "));
  CHECK(plan.said("\n +the evaluator "));
  fs::remove_all(on.home() / "images/val");
  auto absent = on.start("absent", all);
  CHECK(absent.wait() == 1);
  CHECK(absent.err() ==
        "trainer_node: images: has neither a folder val nor test\n");
}

TEST_CASE("data check says what there is and what is damaged") {
  process_fixture on;
  write_cifar(on.home() / "cifar");
  write_folder(on.home() / "folder");
  write_shards(on.home() / "shards");
  auto cifar = on.start("cifar", {"data", "check", "cifar"});
  check_end(cifar, 0);
  CHECK(cifar.said("train        40 samples, 3x32x32; 4 to 4 of a class"));
  auto shards = on.start("shards", {"data", "check", "shards"});
  check_end(shards, 0);
  CHECK(shards.said("data set     tar in shards"));
  CHECK(shards.said("train        16 samples, .*; 8 to 8 of a class"));
  write(on.home() / "folder/train/light/2.webp", files::text("?"));
  auto left_out = on.start("left-out", {"data", "check", "folder"});
  check_end(left_out, 0);
  CHECK(left_out.said("left out     1 \\.webp\n"));
  CHECK(left_out.said("all samples can be read; only .jpg"));
  write(on.home() / "folder/val/light/2.jpg", {0xff, 0xd8, 0xff, 0xe0});
  auto folder = on.start("folder", {"data", "check", "folder"});
  CHECK(folder.wait() == 1);
  CHECK(folder.said("damaged      folder/val/light/2.jpg: at byte "));
  for (std::string name : {"train-1", "val-0"})
    write(on.home() / "shards" / (name + ".tar"), files::text("no tar"));
  auto damaged = on.start("damaged", {"data", "check", "shards"});
  CHECK(damaged.wait() == 1);
  CHECK(damaged.said("damaged      shards/train-1.tar: at byte 0: "));
  CHECK(damaged.said("damaged      shards/val-0.tar: at byte 0: "));
  CHECK(damaged.said("train        8 samples"));
  CHECK(damaged.err() == "trainer_node: shards: 2 files or folders cannot be "
                         "used, and a run needs them all\n");
}

TEST_CASE("data split cuts each kind of set into sets of that kind") {
  process_fixture on;
  write_cifar(on.home() / "cifar");
  write_folder(on.home() / "folder");
  write_shards(on.home() / "shards");
  struct expected {
    std::string set;
    std::string line;
  };
  for (const auto& [set, line] :
       {expected{"cifar", "train        20 samples, .*; 2 to 2 of a class"},
        expected{"folder", "train        8 samples, .*; 4 to 4 of a class"},
        expected{"shards", "train        8 samples, .*; .* of a class"}}) {
    auto split = on.start(set, {"data", "split", set, "--parts", "2"});
    check_end(split, 0);
    for (std::string part : {"part-0", "part-1"}) {
      auto name = set + "-in-2-parts/" + part;
      auto check = on.start(set + part, {"data", "check", name});
      check_end(check, 0);
      CHECK(check.said(line));
    }
    auto again =
      on.start(set + "-again", {"data", "split", set, "--parts", "2"});
    CHECK(again.wait() == 1);
  }
}
