// What users, files, disks and peers can get wrong: each is one clear line on
// stderr, the right exit status, and nothing left half-written.

#include "tests/data/image_files.hpp"
#include "tests/process/process_fixture.hpp"

#include <arpa/inet.h>
#include <catch2/catch_test_macros.hpp>
#include <netinet/in.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <regex>
#include <sstream>

using namespace troupe::testing;
namespace fs = std::filesystem;
namespace idx = troupe::test;
using idx::operator+;

namespace {

/// One row of the table.
struct row {
  const char* what;
  const char* typed; ///< The command line.
  int status;
  const char* line; ///< Pattern of what follows "trainer_node: ".
};

flags split(const std::string& typed) {
  std::istringstream in{typed};
  flags result;
  for (std::string word; in >> word;)
    result.push_back(word);
  return result;
}

/// Checks that a process ends with `status` and with one to three plain lines
/// on stderr.
void check_refusal(child& who, int status, const std::string& line) {
  auto found = who.wait();
  INFO(who.report());
  CHECK(found == status);
  auto said = who.err();
  auto lines = std::count(said.begin(), said.end(), '\n');
  CHECK((lines >= 1 && lines <= 3));
  INFO("wanted: " << line);
  CHECK(std::regex_match(said, std::regex{"trainer_node: " + line + "\n"}));
  for (const auto* noise : {"terminate called", "what():", "Exception raised",
                            "frame #", "caf::", "c10::"})
    CHECK(said.find(noise) == std::string::npos);
}

/// Runs each row in home() of the fixture, where nothing may change.
template <size_t N>
void check_table(process_fixture& on, const row (&table)[N]) {
  for (const auto& [what, typed, status, line] : table) {
    INFO(what << ": trainer_node " << typed);
    auto before = files_below(on.home());
    auto who = on.start("row", split(typed));
    check_refusal(who, status, line);
    auto after = files_below(on.home());
    std::erase_if(
      after, [](const std::string& name) { return name.starts_with("row."); });
    std::erase_if(
      before, [](const std::string& name) { return name.starts_with("row."); });
    CHECK(after == before);
  }
}

void write(const fs::path& path, const idx::bytes& content) {
  fs::create_directories(path.parent_path());
  spill(path, {content.begin(), content.end()});
}

/// A good data set of 28 x 28 images in `folder`.
void write_data(const fs::path& folder, uint32_t samples) {
  for (const auto* part : {"train", "t10k"}) {
    idx::bytes labels(samples);
    for (uint32_t i = 0; i < samples; ++i)
      labels[i] = static_cast<uint8_t>(i % 10);
    auto name = std::string{part};
    write(folder / (name + "-images-idx3-ubyte"),
          idx::images_file(samples, 28, 28, idx::bytes(samples * 784, 7)));
    write(folder / (name + "-labels-idx1-ubyte"),
          idx::labels_file(samples, labels));
  }
}

} // namespace

// -- the command line ---------------------------------------------------------

constexpr row bad_calls[] = {
  {"no role", "", 2, "nothing to do: give --simulate .*--role.*"},
  {"unknown flag", "--frobnicate", 2, "unknown flag '--frobnicate'"},
  {"misspelt flag", "--simulate --batchsize 3", 2,
   "unknown flag '--batchsize'; did you mean '--batch-size'\\?"},
  {"misspelt role", "--role wrker", 2,
   "--role wrker: .*did you mean 'worker'\\?"},
  {"wrong type", "--simulate --batch-size many", 2,
   "--batch-size many: must be a whole number"},
  {"out of range", "--simulate --momentum 1.5", 2,
   "--momentum 1\\.5: must be at least 0 and below 1"},
  {"missing value", "--simulate --lr", 2, "--lr needs a value"},
  {"no such file", "--simulate --config nothing.ini", 2,
   ".*nothing\\.ini.*No such file.*"},
  {"a folder as file", "--simulate --config folder", 2,
   ".*folder.*: (is|Is) .*(directory|folder|file).*"},
  {"misspelt key", "--simulate --config misspelt.ini", 2,
   "misspelt\\.ini:3: unknown key 'momentun' in \\[training\\]; did you mean "
   "'momentum'\\?"},
  {"unknown section", "--simulate --config section.ini", 2,
   "section\\.ini:2: 'lr' belongs in \\[training\\], not in \\[trainning\\]"},
  {"wrong type in a file", "--simulate --config type.ini", 2,
   "type\\.ini:2: \\[training\\] batch-size = x: must be a whole number"},
  {"binary file", "--simulate --config binary.ini", 2, "binary\\.ini:1: .*"},
  {"unknown network", "--simulate --network resnet", 2,
   "--network resnet: is no network; --list-networks shows all.*"},
  {"unknown data set", "--simulate --dataset cifar11", 2,
   "--dataset cifar11: is no data set; --list-datasets shows all; did you "
   "mean 'cifar10'\\?"},
  {"unknown augmentation", "--simulate --augment crop+spin", 2,
   "--augment crop\\+spin: has the step 'spin'; there are auto, none, .*"},
  {"data without a verb", "data", 2, "data needs to be told what to do: .*"},
  {"data without a folder", "data check", 2,
   "data check needs a folder with a data set"},
  {"parts of nothing", "data split folder", 2, "data split needs --parts N"},
  {"a set that cannot be fetched", "data fetch kmnist --data-dir folder", 2,
   "data fetch kmnist: can fetch only mnist, fashion-mnist, cifar10, .*"},
  {"no parts", "data split folder --parts 0", 2,
   "--parts 0: must be at least 1"},
  {"network of another input", "--simulate --network resnet20", 2,
   "--network resnet20 takes images of 3 channels and at least 8x8, those of "
   "digits are 1x28x28; .*"},
  {"synthetic shape", "--simulate --dataset synthetic(shape=3x32)", 2,
   "--dataset synthetic\\(shape=3x32\\): shape of synthetic must be CxHxW.*"},
  {"synthetic size", "--simulate --dataset synthetic(samples=4000000000)", 2,
   ".*asks for more than 8 GiB of samples"},
  {"unknown buffers", "--simulate --buffers mean", 2,
   "--buffers mean: must be one of average, first, local.*"},
  {"unknown policy", "--simulate --policy bulk", 2,
   "--policy bulk: must be one of sync, backup, ssp, async, buffered, "
   "quorum"},
  {"unknown optimizer", "--simulate --optimizer sdg", 2,
   "--optimizer sdg: must be one of .*did you mean 'sgd'\\?"},
  {"too many backups", "--simulate --policy backup --backup-workers 4", 2,
   "--backup-workers 4: must be less than the number of workers, 4"},
  {"open network", "--role ps --host 0.0.0.0", 2,
   "--host 0\\.0\\.0\\.0: is no loopback address.*--insecure-network.*"},
  {"virtual time of one role", "--role ps --clock virtual", 2,
   "--clock virtual: is for the whole cluster in one process.*--simulate"},
  {"more shards than pages", "--simulate --shards 422", 2,
   "--shards 422: the weights of 'lenet' are 1724320 bytes, and each shard "
   "owns "
   "a page of 4096 at least; give at most 421"},
  {"a shard without an address", "--role ps --shards 2 --rank 1", 2,
   "--rank 1: a shard in a process of its own has an address of its own: give "
   "it with --listen HOST:PORT"},
  {"no such device", "--simulate --device cuda9", 2,
   "--device cuda9: must be cpu, cuda, cuda:N with N up to 15, or auto"},
};

TEST_CASE("a bad command line or configuration is refused in one line") {
  process_fixture on;
  fs::create_directory(on.home() / "folder");
  spill(on.home() / "misspelt.ini", "[training]\nlr = 0.1\nmomentun = 0.9\n");
  spill(on.home() / "section.ini", "[trainning]\nlr = 0.1\n");
  spill(on.home() / "type.ini", "[training]\nbatch-size = x\n");
  spill(on.home() / "binary.ini", std::string("\x7f"
                                              "ELF\0\1\2\n",
                                              8));
  check_table(on, bad_calls);
}

// -- data files ---------------------------------------------------------------

constexpr row bad_data[] = {
  {"no files named", "--simulate --dataset mnist", 2,
   "--dataset mnist: is read from files: give their folder with --data-dir"},
  {"no such folder", "--simulate --dataset mnist --data-dir nothing", 1,
   "mnist: no file train-images-idx3-ubyte .* in any of: nothing, .*"},
  {"cut off", "--simulate --dataset mnist --data-dir cut", 1,
   "cut/train-images-idx3-ubyte: at byte 16: the header promises .*"},
  {"no IDX file", "--simulate --dataset mnist --data-dir magic", 1,
   "magic/train-images-idx3-ubyte: at byte 0: not an IDX file of images.*"},
  {"gzip cut off", "--simulate --dataset mnist --data-dir gzip", 1,
   "gzip/train-images-idx3-ubyte\\.gz: at byte \\d+: the compressed data is "
   "cut off"},
  {"label out of range", "--simulate --dataset mnist --data-dir label", 1,
   "label/train-labels-idx1-ubyte: at byte 13: label 10 is not in 0 to 9"},
  {"images without labels", "--simulate --dataset mnist --data-dir count", 1,
   "count/train-images-idx3-ubyte has 99 images, but .* has 100 labels"},
  {"smaller than a batch",
   "--simulate --dataset mnist --data-dir good --batch-size 101", 1,
   "the data set mnist has 100 samples, fewer than a batch of 101"},
  {"CIFAR cut off", "--simulate --dataset cifar10 --data-dir cifar-cut", 1,
   "cifar-cut/data_batch_1\\.bin: at byte 3073: the file is cut off: 6000 "
   "bytes are not a number of records of 3073"},
  {"CIFAR's label", "--simulate --dataset cifar10 --data-dir cifar-label", 1,
   "cifar-label/test_batch\\.bin: at byte 0: label 10 is not in 0 to 9"},
  {"gzip bomb", "data check bomb", 1,
   "bomb: 2 files or folders cannot be used, and a run needs them all"},
  {"empty class", "--simulate --dataset folder --data-dir classes", 1,
   "classes/train/empty: holds no \\.jpg, \\.jpeg or \\.png file"},
  {"large image", "data check large", 1,
   "large: 1 sample is damaged; --on-bad-sample skip trains without"},
  {"path out of a tar", "--simulate --dataset tar --data-dir shards", 1,
   "shards/train-0\\.tar: at byte 1024: the path '\\.\\./a\\.cls' leaves the "
   "root"},
  {"shard that is not there",
   "--simulate --dataset tar(train=train-{0..1}.tar,val=val.tar) --data-dir "
   "shards",
   1, "shards/train-1\\.tar: there is no such shard"},
  {"no data set", "data check .", 1,
   "\\.: holds the files of no data set; --list-datasets shows .*"},
  {"more parts than samples", "data split good --parts 101", 1,
   "good: class 0 has 10 samples for training, which cannot be cut into 101 "
   "parts"},
  {"split of a damaged set", "data split label --parts 2", 1,
   "label/train-labels-idx1-ubyte: at byte 13: label 10 is not in 0 to 9"},
};

namespace {

/// A PNG image whose header, checksum included, says 100,000 x 100,000.
idx::bytes large_image() {
  auto out = idx::png_file(1, 1, 1, {0});
  idx::bytes size;
  idx::append(size, 100'000);
  idx::append(size, 100'000);
  std::copy(size.begin(), size.end(), out.begin() + 16);
  idx::bytes sum;
  idx::append(sum, static_cast<uint32_t>(crc32(0, out.data() + 12, 17)));
  std::copy(sum.begin(), sum.end(), out.begin() + 29);
  return out;
}

/// Sets of other kinds with something wrong in each.
void write_bad_sets(const fs::path& home) {
  auto record = idx::cifar_record({3}, 10);
  auto cut = record + record;
  cut.resize(6000);
  for (std::string part : {"cut", "label"}) {
    write(home / ("cifar-" + part) / "data_batch_1.bin",
          part == "cut" ? cut : record);
    write(home / ("cifar-" + part) / "test_batch.bin",
          idx::cifar_record({10}, 10));
  }
  auto bomb = idx::images_file(65535, 65535, 1, idx::bytes(1 << 24, 0));
  write(home / "bomb/train-images-idx3-ubyte.gz", idx::gzip(bomb));
  write(home / "bomb/train-labels-idx1-ubyte", idx::labels_file(1, {0}));
  auto image = idx::png_file(2, 2, 1, {1, 2, 3, 4});
  for (std::string part : {"train", "val"}) {
    write(home / "classes" / part / "a" / "1.png", image);
    write(home / "large" / part / "a" / "1.png",
          part == "train" ? large_image() : image);
  }
  fs::create_directory(home / "classes/train/empty");
  write(home / "shards/train-0.tar",
        idx::tar_file({idx::member("a.png", image),
                       idx::member("../a.cls", idx::text("1"))}));
  write(home / "shards/val.tar", idx::tar_file({}));
}

} // namespace

TEST_CASE("a bad data file is refused in one line") {
  process_fixture on;
  auto at = [&](const char* folder) {
    return on.home() / folder;
  };
  for (const auto* folder : {"good", "cut", "magic", "gzip", "label", "count"})
    write_data(at(folder), 100);
  auto images = idx::images_file(100, 28, 28, idx::bytes(78400, 7));
  auto cut = images;
  cut.resize(40000);
  write(at("cut") / "train-images-idx3-ubyte", cut);
  auto magic = images;
  magic[2] = 0x0d;
  write(at("magic") / "train-images-idx3-ubyte", magic);
  fs::remove(at("gzip") / "train-images-idx3-ubyte");
  auto compressed = idx::gzip(images);
  compressed.resize(compressed.size() / 2);
  write(at("gzip") / "train-images-idx3-ubyte.gz", compressed);
  idx::bytes labels(100, 0);
  labels[5] = 10;
  write(at("label") / "train-labels-idx1-ubyte", idx::labels_file(100, labels));
  write(at("count") / "train-images-idx3-ubyte",
        idx::images_file(99, 28, 28, idx::bytes(99 * 784, 7)));
  write_bad_sets(on.home());
  check_table(on, bad_data);
}

// -- the run directory --------------------------------------------------------

constexpr row bad_folders[] = {
  {"holds a run", "--simulate --train-dir run", 2,
   "train-dir run: holds a run already: give --resume .*--overwrite.*"},
  {"is a file", "--simulate --train-dir file", 2,
   "train-dir file: is no folder"},
  {"is below a file", "--simulate --train-dir file/run", 1,
   "cannot use train-dir file/run: Not a directory"},
  {"cannot be made", "--simulate --train-dir /proc/nothing/run", 1,
   "cannot use train-dir /proc/nothing/run: .*"},
  {"no such checkpoint", "--simulate --train-dir run --resume nothing", 2,
   "resume nothing: no such folder"},
  {"a file to resume", "--simulate --train-dir run --resume file", 2,
   "resume file: is a file, and --resume takes a run directory .*--init .*"},
  {"resume and overwrite", "--simulate --train-dir run --resume --overwrite", 2,
   "--overwrite true: contradicts resume: give one of the two"},
  {"another optimizer",
   "--simulate --train-dir run --resume --optimizer adam --max-steps 9", 2,
   "--optimizer adam: the run at run/checkpoints/step-00000006 has sgd; leave "
   "it out to go on as it was, or begin another run in another train-dir"},
  {"another type of weights",
   "--simulate --train-dir run --resume --dtype float64 --max-steps 9", 2,
   "--dtype float64: the run at run/checkpoints/step-00000006 has float32; .*"},
  {"another data set",
   "--simulate --train-dir run --resume --dataset mnist --data-dir good "
   "--max-steps 9",
   2,
   "--dataset mnist: the run at run/checkpoints/step-00000006 has digits; .*"},
};

namespace {

/// A short run with checkpoints at steps 2, 4 and 6: each the last of a start,
/// since those between may be skipped while the disk is slow.
void make_run(process_fixture& on) {
  for (const auto* steps : {"2", "4", "6"}) {
    auto all = on.simulate({"--workers", "1", "--max-steps", steps, "--resume",
                            "--set", "cluster.evaluator=false"});
    check_end(all, 0);
  }
  REQUIRE(checkpoints_of(on.run()) ==
          std::vector<std::string>{"step-00000002", "step-00000004",
                                   "step-00000006"});
}

void flip_a_byte(const fs::path& path) {
  auto text = slurp(path);
  text[text.size() / 2] ^= 1;
  spill(path, text);
}

} // namespace

TEST_CASE("bad run directories and checkpoints of other runs are refused") {
  process_fixture on;
  make_run(on);
  spill(on.home() / "file", "mine");
  write_data(on.home() / "good", 100);
  auto metrics = slurp(on.run() / "metrics.jsonl");
  auto config = slurp(on.run() / "config.ini");
  auto summary = slurp(on.run() / "summary.json");
  check_table(on, bad_folders);
  CHECK(slurp(on.home() / "file") == "mine");
  CHECK(slurp(on.run() / "metrics.jsonl") == metrics);
  CHECK(slurp(on.run() / "config.ini") == config);
  CHECK(slurp(on.run() / "summary.json") == summary);
}

TEST_CASE("a damaged checkpoint gives way to the one before") {
  process_fixture on;
  make_run(on);
  auto checkpoint = on.run() / "checkpoints" / "step-00000006";
  for (const auto* file :
       {"model.safetensors", "optimizer.safetensors", "manifest.pb"}) {
    INFO(file);
    auto copy = on.home() / "copy";
    fs::copy(on.run(), copy, fs::copy_options::recursive);
    flip_a_byte(copy / "checkpoints" / "step-00000006" / file);
    auto all =
      on.start("damaged", {"--simulate", "--workers", "1", "--train-dir",
                           copy.string(), "--resume", "--max-steps", "7"});
    check_end(all, 0);
    CHECK(all.said("step-00000006 cannot be used: .*; trying the one before"));
    CHECK(all.said("resumed +from step 4; 2 updates"));
    CHECK(read_summary(copy)["steps"] == 7);
    fs::remove_all(copy);
  }
}

TEST_CASE("a run with damaged checkpoints only is not resumed") {
  process_fixture on;
  make_run(on);
  for (const auto& name : checkpoints_of(on.run()))
    flip_a_byte(on.run() / "checkpoints" / name / "model.safetensors");
  auto before = files_below(on.run());
  auto metrics = slurp(on.run() / "metrics.jsonl");
  auto one = on.simulate(
    {"--resume", (on.run() / "checkpoints" / "step-00000006").string()});
  check_refusal(one, 1,
                "checkpoint .*step-00000006 cannot be used: the checksum of "
                "model\\.safetensors does not match");
  auto all = on.simulate({"--resume", on.run().string()});
  check_refusal(all, 1, "no usable checkpoint in .*/run/checkpoints");
  auto newest = on.simulate({"--resume"});
  check_refusal(newest, 1,
                "no usable checkpoint in .*/run/checkpoints; --overwrite "
                "begins anew");
  CHECK(files_below(on.run()) == before);
  CHECK(slurp(on.run() / "metrics.jsonl") == metrics);
}

// -- the disk -----------------------------------------------------------------

namespace {

/// Checks that a run which meets a full disk says so and leaves no half file.
void check_full(process_fixture& on, child& who, const std::string& reason) {
  check_refusal(who, 1, ".*" + reason + ".*");
  for (const auto& name : files_below(on.run())) {
    INFO(name);
    CHECK(name.find("tmp") == std::string::npos);
  }
}

} // namespace

TEST_CASE("a run whose files may not grow fails in one line") {
  process_fixture on;
  child_options how;
  how.largest_file = 1 << 20;
  auto who =
    on.start("simulate",
             {"--simulate", "--workers", "1", "--train-dir", on.run().string(),
              "--checkpoint-freq", "2", "--max-steps", "1000"},
             how);
  check_full(on, who, "checkpoint .* was not written: .*File too large");
  CHECK(on.summary()["status"] == "failed");
  CHECK(checkpoints_of(on.run()).empty());
}

TEST_CASE("a full disk ends a run in one line") {
  process_fixture on;
  fs::create_directory(on.run());
  // A file system in a mount namespace of our own, which ends with this
  // process.
  if (::unshare(CLONE_NEWNS) != 0 ||
      ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mount("troupe", on.run().c_str(), "tmpfs", 0, "size=8m") != 0)
    SKIP("this needs the right to mount a file system");
  auto who = on.simulate(
    {"--workers", "1", "--checkpoint-freq", "2", "--max-steps", "1000"});
  check_full(on, who, "checkpoint .* was not written: .*No space left.*");
  auto kept = checkpoints_of(on.run());
  REQUIRE(!kept.empty());
  ::mount("troupe", on.run().c_str(), "tmpfs", MS_REMOUNT, "size=64m");
  auto again = on.simulate({"--workers", "1", "--resume", "--max-steps", "9"});
  check_end(again, 0);
  CHECK(again.said("resumed +from step"));
  ::umount2(on.run().c_str(), MNT_DETACH);
}

// -- peers --------------------------------------------------------------------

namespace {

/// A TCP socket that closes when it goes.
class socket_guard {
public:
  explicit socket_guard(int fd) : fd_(fd) {
    if (fd < 0)
      throw std::runtime_error("no socket");
  }

  ~socket_guard() { ::close(fd_); }

  socket_guard(const socket_guard&) = delete;
  socket_guard& operator=(const socket_guard&) = delete;

  int fd() const { return fd_; }

private:
  int fd_;
};

sockaddr_in address_of(const std::string& port) {
  sockaddr_in result{};
  result.sin_family = AF_INET;
  result.sin_port = htons(static_cast<uint16_t>(std::stoi(port)));
  result.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return result;
}

/// Listens without ever answering, unless a connection is accepted by hand.
int listen_on(const std::string& port) {
  auto fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  auto address = address_of(port);
  if (::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(fd, 64) != 0)
    throw std::runtime_error("cannot listen on " + port);
  return fd;
}

int connect_to(const std::string& port) {
  auto fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  auto address = address_of(port);
  if (::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
    throw std::runtime_error("cannot connect to " + port);
  return fd;
}

void say(int fd, const std::string& text) {
  [[maybe_unused]] auto sent =
    ::send(fd, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

/// Bytes without sense, always the same.
std::string noise(size_t size) {
  std::string result(size, '\0');
  uint32_t state = 1;
  for (auto& x : result) {
    state = state * 1664525 + 1013904223;
    x = static_cast<char>(state >> 24);
  }
  return result;
}

/// A header as CAF's protocol has it, that promises 4 GiB.
std::string greedy_header() {
  auto result = std::string(16, '\0');
  result.replace(4, 4, "\xff\xff\xff\xff");
  return result;
}

} // namespace

TEST_CASE("a port that is in use is refused") {
  process_fixture on;
  socket_guard taken{listen_on(on.port())};
  auto server = on.server({});
  check_refusal(server, 1,
                "cannot listen on 127\\.0\\.0\\.1:" + on.port() +
                  ": .*in use.*");
  CHECK(!fs::exists(on.run()));
}

TEST_CASE("a host of another machine is no place to listen") {
  process_fixture on;
  const flags elsewhere{"--host", "203.0.113.7", "--insecure-network"};
  auto server = on.server(elsewhere);
  check_refusal(server, 1,
                "cannot listen on 203\\.0\\.113\\.7:" + on.port() +
                  ": Cannot assign requested address; give an address of this "
                  "machine with --listen, or 0\\.0\\.0\\.0 for all");
  auto shard = on.shard(
    1, {"--shards", "2", "--listen", "203.0.113.7:0", "--insecure-network"});
  check_refusal(shard, 1,
                "cannot listen on 203\\.0\\.113\\.7:0: Cannot assign .*");
}

TEST_CASE("a host whose name does not resolve is refused") {
  process_fixture on;
  const flags nowhere{"--host", "nowhere.invalid", "--insecure-network",
                      "--connect-timeout", "0.5"};
  auto server = on.server(nowhere);
  check_refusal(server, 1,
                "cannot listen on nowhere\\.invalid:" + on.port() +
                  ": .*[Nn]ame.*; check the name, or give an address of this "
                  "machine");
  auto worker = on.worker(nowhere);
  check_refusal(worker, 1,
                "no parameter server at nowhere\\.invalid:" + on.port() +
                  " within .* s \\(cannot look up nowhere\\.invalid: "
                  ".*[Nn]ame.*\\); check \\[cluster\\] host and port.*");
}

TEST_CASE("a peer that never answers is given up in one line") {
  process_fixture on;
  socket_guard mute{listen_on(on.port())};
  auto worker = on.worker({"--connect-timeout", "2"});
  check_refusal(worker, 1,
                "no parameter server at 127\\.0\\.0\\.1:" + on.port() +
                  " within 2 s .*");
}

TEST_CASE("a peer that talks nonsense is refused in one line") {
  process_fixture on;
  socket_guard babbler{listen_on(on.port())};
  auto worker = on.worker({"--connect-timeout", "2"});
  auto text = noise(1000);
  std::vector<std::unique_ptr<socket_guard>> open;
  eventually("the worker's end", [&] {
    auto fd = ::accept(babbler.fd(), nullptr, nullptr);
    if (fd >= 0) {
      say(fd, text);
      open.push_back(std::make_unique<socket_guard>(fd));
    }
    return !worker.running();
  });
  check_refusal(
    worker, 1, "(no parameter server at )?127\\.0\\.0\\.1:" + on.port() + ".*");
}

TEST_CASE("a node that was meant for another run is refused") {
  process_fixture on;
  auto server = on.listening_server(
    {"--workers", "1", "--max-steps", "3", "--run-id", "night 7"});
  auto stray = on.worker({"--run-id", "night 8"});
  check_refusal(stray, 2,
                "127\\.0\\.0\\.1:" + on.port() +
                  " refuses this node: its run is 'night 7', and this node is "
                  "for 'night 8': check --run-id, host and port");
  auto worker = on.worker({"--run-id", "night 7"});
  check_end(worker, 0);
  check_end(server, 0);
  CHECK(worker.said("connected .* as worker 0 over .*, run night 7"));
}

TEST_CASE("a node with other settings than the cluster is refused") {
  process_fixture on;
  auto server = on.listening_server({"--workers", "1", "--epochs", "1"});
  auto other = on.worker({"--batch-size", "32"});
  check_refusal(other, 2,
                "127\\.0\\.0\\.1:" + on.port() +
                  " refuses this node: \\[training\\] batch-size = 32 here, "
                  "but 64 at the parameter server: .*");
  auto third = on.evaluator({"--network", "lenet", "--seed", "2"});
  check_refusal(third, 2, ".*\\[training\\] seed = 2 here, but 1 at .*");
  auto worker = on.worker({"--batch-size", "64"});
  check_end(server, 0);
  check_end(worker, 0);
}

TEST_CASE("a node without what the cluster needs is refused") {
  process_fixture on;
  write_data(on.home() / "good", 100);
  write_data(on.home() / "other", 90);
  auto server = on.listening_server(
    {"--workers", "1", "--epochs", "1", "--batch-size", "10", "--dataset",
     "mnist", "--data-dir", (on.home() / "good").string()});
  auto blind = on.worker();
  check_refusal(blind, 2, ".*mnist needs --data-dir.*");
  auto lost = on.worker({"--data-dir", "nothing"});
  check_refusal(lost, 1, "mnist: no file train-images-idx3-ubyte .*");
  auto wrong = on.worker({"--data-dir", "other"});
  check_refusal(wrong, 1,
                "other: is other data than the parameter server's: training "
                "samples: 100 there, 90 here; give all nodes the same");
  auto worker = on.worker({"--data-dir", "good"});
  check_end(server, 0);
  check_end(worker, 0);
}

TEST_CASE("a rank that is taken is refused") {
  process_fixture on;
  auto server = on.listening_server({"--workers", "2", "--epochs", "1"});
  auto first = on.worker({"--rank", "0"});
  first.await("connected");
  auto second = on.worker({"--rank", "0", "--connect-timeout", "2"});
  check_refusal(second, 1, ".*within 2 s .*rank.*taken.*");
  auto third = on.worker();
  check_end(server, 0);
  check_end(first, 0);
  check_end(third, 0);
}

TEST_CASE("connections of strangers do not disturb a run") {
  process_fixture on;
  auto server = on.listening_server({"--workers", "1", "--epochs", "4"});
  const std::string greetings[] = {"",
                                   "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
                                   std::string(4, '\0'),
                                   std::string(64, '\0'),
                                   std::string(64, '\xff'),
                                   greedy_header(),
                                   noise(1 << 20)};
  std::vector<std::unique_ptr<socket_guard>> open;
  auto visit = [&] {
    for (const auto& text : greetings) {
      socket_guard leaves{connect_to(on.port())};
      say(leaves.fd(), text);
      open.push_back(std::make_unique<socket_guard>(connect_to(on.port())));
      say(open.back()->fd(), text); // This one stays.
    }
  };
  visit();
  auto worker = on.worker();
  on.await(server, "training", is_kind("update"));
  visit();
  check_end(server, 0);
  check_end(worker, 0);
  CHECK(on.summary()["status"] == "completed");
}
