#include "apps/data/data.hpp"
#include "config/schema/known_names.hpp"
#include "data/formats/idx.hpp"
#include "data/formats/image_file.hpp"
#include "data/formats/image_folder.hpp"
#include "data/formats/tar_shards.hpp"
#include "models/storage/durable_file.hpp"

#include <unistd.h>

#include <algorithm>
#include <span>
#include <system_error>

namespace troupe::app {

namespace {

namespace fs = std::filesystem;

/// A folder that is removed unless it is finished.
class draft {
public:
  explicit draft(const fs::path& path)
    : path_(path.string() + ".tmp-" + std::to_string(getpid())), to_(path) {
    std::error_code error;
    if (fs::exists(path, error))
      throw run_error(path.string() + ": is there already; --out names "
                                      "another folder");
    if (!fs::create_directories(path_, error))
      fail(path_, error);
  }

  ~draft() {
    std::error_code error;
    if (!path_.empty())
      fs::remove_all(path_, error);
  }

  draft(const draft&) = delete;
  draft& operator=(const draft&) = delete;

  fs::path part(uint32_t i) const {
    return path_ / ("part-" + std::to_string(i));
  }

  void finish() {
    std::error_code error;
    fs::rename(path_, to_, error);
    if (error)
      fail(to_, error);
    path_.clear();
    models::sync_folder(fs::absolute(to_).parent_path());
  }

  [[noreturn]] static void fail(const fs::path& where,
                                const std::error_code& error) {
    throw run_error(where.string() + ": cannot be written: " + error.message());
  }

private:
  fs::path path_;
  fs::path to_;
};

void make_folder(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error)
    draft::fail(path, error);
}

/// A hard link to the file where the file system allows it, else a copy.
void link_or_copy(const fs::path& from, const fs::path& to) {
  std::error_code error;
  make_folder(to.parent_path());
  fs::create_hard_link(fs::canonical(from, error), to, error);
  if (!error)
    return;
  fs::copy_file(from, to, error);
  if (error)
    draft::fail(to, error);
}

void write_bytes(models::output_file& to, std::span<const uint8_t> bytes) {
  to.write(std::as_bytes(bytes));
}

struct assignment {
  uint32_t parts = 0;
  std::vector<uint32_t> of_sample; ///< The part of each sample.
};

/// Distributes the samples: those of each class in turn, so that all parts have
/// all classes. Each class begins with another part, which keeps the parts
/// equal in size.
assignment assign(const config::data_settings& settings,
                  const data::dataset_source& from, uint32_t parts) {
  std::vector<uint64_t> seen(static_cast<size_t>(from.classes));
  assignment out{parts, {}};
  for (uint64_t i = 0; i < from.store->size(); ++i) {
    auto label = static_cast<size_t>(from.store->label(i));
    out.of_sample.push_back(
      static_cast<uint32_t>((seen[label]++ + label) % parts));
  }
  for (size_t label = 0; label < seen.size(); ++label)
    if (seen[label] > 0 && seen[label] < parts)
      throw run_error(settings.data_dir + ": class " + std::to_string(label) +
                      " has " + std::to_string(seen[label]) +
                      " samples for training, which cannot be cut into " +
                      std::to_string(parts) + " parts");
  return out;
}

// -- records of one size ------------------------------------------------------

/// A file with a header and records, one for each sample.
struct record_file {
  std::string name; ///< The same in each part.
  size_t record = 0;
  std::vector<std::vector<uint8_t>> pieces; ///< Complete records, in order.
  bool idx = false;
  std::vector<uint32_t> extents; ///< Of an idx file, without the first.
};

void append(std::vector<uint8_t>& to, uint32_t x) {
  for (int shift : {24, 16, 8, 0})
    to.push_back(static_cast<uint8_t>(x >> shift));
}

std::vector<uint8_t> idx_header(uint32_t count,
                                const std::vector<uint32_t>& extents) {
  std::vector<uint8_t> out{0, 0, 8, static_cast<uint8_t>(1 + extents.size())};
  append(out, count);
  for (auto x : extents)
    append(out, x);
  return out;
}

void write_record_file(const record_file& file,
                       const std::vector<uint32_t>& parts, uint32_t mine,
                       const fs::path& folder) {
  make_folder(folder);
  models::output_file to{folder / file.name};
  if (file.idx)
    write_bytes(
      to, idx_header(static_cast<uint32_t>(std::ranges::count(parts, mine)),
                     file.extents));
  uint64_t i = 0;
  std::vector<uint8_t> body;
  for (const auto& piece : file.pieces)
    for (size_t at = 0; at < piece.size(); at += file.record, ++i)
      if (parts[i] == mine) {
        auto record = std::span{piece}.subspan(at, file.record);
        body.insert(body.end(), record.begin(), record.end());
      }
  write_bytes(to, body);
  to.finish();
}

fs::path found_in(std::initializer_list<fs::path> candidates) {
  std::error_code error;
  for (const auto& each : candidates)
    if (fs::exists(each, error))
      return each;
  throw run_error(candidates.begin()->string() + ": there is no such file");
}

fs::path idx_file(const fs::path& dir, const std::string& stem,
                  const std::string& kind) {
  return found_in({dir / (stem + "-" + kind), dir / (stem + "-" + kind + ".gz"),
                   dir / (stem + "." + kind), dir / (stem + "." + kind + ".gz"),
                   dir / "raw" / (stem + "-" + kind),
                   dir / "raw" / (stem + "-" + kind + ".gz")});
}

void split_idx(const config::data_settings& settings, const assignment& whose,
               const draft& to) {
  auto emnist = settings.dataset.starts_with("emnist-");
  auto train = emnist ? settings.dataset + "-train" : "train";
  auto test = emnist ? settings.dataset + "-test" : "t10k";
  auto images = data::read_idx_images(
    idx_file(settings.data_dir, train + "-images", "idx3-ubyte"));
  auto labels = data::read_idx_labels(
    idx_file(settings.data_dir, train + "-labels", "idx1-ubyte"), 256);
  const std::vector<record_file> files{
    {train + "-images-idx3-ubyte",
     size_t{images.rows} * images.columns,
     {std::move(images.pixels)},
     true,
     {images.rows, images.columns}},
    {train + "-labels-idx1-ubyte", 1, {std::move(labels)}, true, {}}};
  for (uint32_t i = 0; i < whose.parts; ++i) {
    for (const auto& each : files)
      write_record_file(each, whose.of_sample, i, to.part(i));
    for (const auto* kind : {"-images", "-labels"}) {
      auto file =
        idx_file(settings.data_dir, test + kind,
                 kind == std::string{"-images"} ? "idx3-ubyte" : "idx1-ubyte");
      link_or_copy(file, to.part(i) / file.filename());
    }
  }
}

void split_cifar(const config::data_settings& settings, const assignment& whose,
                 const draft& to) {
  auto tens = settings.dataset == "cifar10";
  auto below = tens ? "cifar-10-batches-bin" : "cifar-100-binary";
  fs::path dir{settings.data_dir};
  auto find = [&](const std::string& name) {
    return found_in({dir / name, dir / below / name});
  };
  record_file train{tens ? "data_batch_1.bin" : "train.bin",
                    size_t{3072} + (tens ? 1 : 2),
                    {},
                    false,
                    {}};
  std::error_code error;
  for (int i = 1;; ++i) {
    auto name = tens ? "data_batch_" + std::to_string(i) + ".bin" : "train.bin";
    if (i > 1 && (!tens || (!fs::exists(dir / name, error) &&
                            !fs::exists(dir / below / name, error))))
      break;
    train.pieces.push_back(data::read_file(find(name)));
  }
  auto test = find(tens ? "test_batch.bin" : "test.bin");
  for (uint32_t i = 0; i < whose.parts; ++i) {
    write_record_file(train, whose.of_sample, i, to.part(i));
    link_or_copy(test, to.part(i) / test.filename());
  }
}

// -- images in folders and archives -------------------------------------------

void split_folder(const config::data_settings& settings,
                  const assignment& whose, const draft& to) {
  fs::path dir{settings.data_dir};
  auto train = data::index_folder(dir / "train");
  auto test_folder = data::find_test_folder(dir);
  auto test = data::index_folder(test_folder, train.classes);
  for (size_t i = 0; i < train.images.size(); ++i) {
    const auto& file = train.images[i].file;
    link_or_copy(file,
                 to.part(whose.of_sample[i]) / file.lexically_relative(dir));
  }
  for (uint32_t i = 0; i < whose.parts; ++i)
    for (const auto& each : test.images)
      link_or_copy(each.file, to.part(i) / each.file.lexically_relative(dir));
}

void split_tar(const config::data_settings& settings, const assignment& whose,
               const draft& to) {
  auto files = data::find_shards(config::parse_tar_shards(settings.dataset),
                                 settings.data_dir);
  std::vector<std::unique_ptr<models::output_file>> out;
  for (uint32_t i = 0; i < whose.parts; ++i) {
    make_folder(to.part(i));
    out.push_back(
      std::make_unique<models::output_file>(to.part(i) / "train-000000.tar"));
    for (const auto& each : files.test) {
      auto name = each.filename().string();
      auto found = name.starts_with("val") || name.starts_with("test");
      link_or_copy(each, to.part(i) / (found ? name : "val-" + name));
    }
  }
  size_t sample = 0;
  const std::vector<uint8_t> zeros(1024);
  for (const auto& shard : files.train)
    for (const auto& each : data::index_shard(shard)) {
      auto& file = *out[whose.of_sample[sample++]];
      write_bytes(file,
                  data::read_part(shard, each.first, each.last - each.first));
      auto over = (each.last - each.first) % 512;
      if (over != 0)
        write_bytes(file, std::span{zeros}.first(512 - over));
    }
  for (auto& each : out) {
    write_bytes(*each, zeros);
    each->finish();
  }
}

} // namespace

void split_data(const config::data_settings& settings, uint32_t parts,
                const fs::path& out) {
  if (!config::reads_files(settings.dataset))
    throw usage_error("--dataset " + settings.dataset +
                      " has no files to split");
  // All samples are checked before anything is written.
  auto source =
    data::entry_of(settings.dataset).load(settings, 1, data::data_part::both);
  auto whose = assign(settings, source.train, parts);
  draft to{out};
  if (settings.dataset == "folder")
    split_folder(settings, whose, to);
  else if (config::is_tar_shards(settings.dataset))
    split_tar(settings, whose, to);
  else if (settings.dataset.starts_with("cifar"))
    split_cifar(settings, whose, to);
  else
    split_idx(settings, whose, to);
  to.finish();
}

} // namespace troupe::app
