#include "data/formats/tar_shards.hpp"

#include "config/text/failure.hpp"
#include "config/text/input_file.hpp"
#include "config/text/text.hpp"
#include "data/digest.hpp"
#include "data/formats/image_file.hpp"
#include "data/formats/sources.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

namespace troupe::data {

namespace {

namespace fs = std::filesystem;

/// Groups the members of one tar file.
class grouper {
public:
  grouper(const bytes_at& read, const std::string& name)
    : read_(read), name_(name) {
    // nop
  }

  void take(const tar_member& what) {
    auto [stem, kind] = split_name(what.name);
    if (kind.empty())
      return;
    if (stem != stem_) {
      finish();
      stem_ = stem;
      sample_ = {};
      sample_.first = what.header;
      has_image_ = has_label_ = false;
    }
    sample_.last = what.end;
    if (has_image_name(kind) || has_image_name("." + kind))
      take_image(what);
    else if (kind == "cls")
      take_label(what);
  }

  std::vector<tar_sample> finish() {
    if (has_image_ && !has_label_)
      fail(sample_.first, "has no " + stem_ + ".cls beside its image");
    if (has_label_ && !has_image_)
      fail(sample_.first, "has no .jpg, .jpeg or .png beside its .cls");
    if (has_image_)
      samples_.push_back(std::move(sample_));
    has_image_ = has_label_ = false;
    return samples_;
  }

private:
  [[noreturn]] void fail(uint64_t at, const std::string& what) const {
    throw run_error(name_ + ": at byte " + std::to_string(at) +
                    ": the sample " + config::in_quotes(stem_) + " " + what);
  }

  void take_image(const tar_member& what) {
    if (has_image_)
      fail(what.header, "has two images");
    has_image_ = true;
    sample_.image = what.name;
    sample_.begin = what.begin;
    sample_.size = what.size;
  }

  void take_label(const tar_member& what) {
    if (has_label_)
      fail(what.header, "has two labels");
    has_label_ = true;
    std::string text(std::min<uint64_t>(what.size, 32), '\0');
    read_(what.begin, {reinterpret_cast<uint8_t*>(text.data()), text.size()});
    std::string_view digits{text};
    while (!digits.empty() && (digits.back() == '\n' || digits.back() == '\r'))
      digits.remove_suffix(1);
    digits = config::trim(digits);
    if (digits.empty() || digits.size() > 7 ||
        digits.find_first_not_of("0123456789") != digits.npos)
      fail(what.begin,
           "has a label that is no number: " + config::in_quotes(digits));
    for (auto c : digits)
      sample_.label = sample_.label * 10 + (c - '0');
    if (sample_.label > highest_label)
      fail(what.begin, "has the label " + std::string{digits} +
                         "; the limit is " + std::to_string(highest_label));
  }

  const bytes_at& read_;
  const std::string& name_;
  std::string stem_;
  tar_sample sample_;
  bool has_image_ = false;
  bool has_label_ = false;
  std::vector<tar_sample> samples_;
};

class tar_store final : public sample_store {
public:
  explicit tar_store(std::vector<fs::path> shards)
    : shards_(std::move(shards)) {
    for (uint32_t i = 0; i < shards_.size(); ++i)
      for (auto& each : index_shard(shards_[i])) {
        classes_ = std::max(classes_, each.label + 1);
        samples_.push_back({i, std::move(each)});
      }
  }

  /// One more than the highest label.
  int64_t classes() const noexcept { return classes_; }

  uint64_t size() const noexcept override { return samples_.size(); }

  int64_t label(uint64_t index) const override {
    return samples_[index].what.label;
  }

  picture load(uint64_t index, const window_choice& choose) const override {
    const auto& [shard, what] = samples_[index];
    const auto& file = shards_[shard];
    auto bytes = read_part(file, what.begin, what.size);
    return decode_image(bytes,
                        file.string() + ": at byte " +
                          std::to_string(what.begin) + ": " + what.image,
                        choose);
  }

  uint64_t content_digest() const override {
    digest out;
    for (const auto& shard : shards_)
      out.add(std::string_view{shard.filename().native()});
    for (const auto& [shard, what] : samples_) {
      out.add(what.image);
      out.add(what.begin);
      out.add(what.size);
    }
    return out.value();
  }

  bool decodes() const noexcept override { return true; }

private:
  struct placed {
    uint32_t shard;
    tar_sample what;
  };

  std::vector<fs::path> shards_;
  std::vector<placed> samples_;
  int64_t classes_ = 0;
};

std::vector<fs::path> named(const std::string& pattern,
                            const fs::path& data_dir) {
  std::error_code error;
  std::vector<fs::path> out;
  for (const auto& name : config::expand_range(pattern)) {
    out.push_back(data_dir / name);
    if (!fs::exists(out.back(), error))
      throw run_error(out.back().string() + ": there is no such shard");
  }
  return out;
}

std::vector<fs::path> beginning_with(const std::string& prefix,
                                     const fs::path& data_dir) {
  std::error_code error;
  std::vector<fs::path> out;
  for (fs::directory_iterator i{data_dir, error}, end; !error && i != end;
       i.increment(error)) {
    auto name = i->path().filename().string();
    if (name.starts_with(prefix) && name.ends_with(".tar"))
      out.push_back(i->path());
  }
  if (error)
    throw run_error(data_dir.string() + ": cannot be read: " + error.message());
  std::ranges::sort(out);
  return out;
}

} // namespace

std::vector<uint8_t> read_part(const fs::path& file, uint64_t begin,
                               uint64_t size) try {
  config::input_file in{file};
  if (begin > in.size() || size > in.size() - begin)
    throw run_error(file.string() + ": at byte " + std::to_string(begin) +
                    ": the file has changed and ends before its sample");
  std::vector<uint8_t> out(size);
  out.resize(in.read(begin, std::as_writable_bytes(std::span{out})));
  return out;
} catch (const config::unreadable& why) {
  config::refuse_file(file, why);
}

std::vector<tar_sample> index_samples(const bytes_at& read, uint64_t size,
                                      const std::string& name) {
  grouper groups{read, name};
  for (const auto& each : index_tar(read, size, name))
    groups.take(each);
  return groups.finish();
}

std::vector<tar_sample> index_shard(const fs::path& file) try {
  config::input_file in{file};
  return index_samples(
    [&in](uint64_t at, std::span<uint8_t> to) {
      return in.read(at, std::as_writable_bytes(to));
    },
    in.size(), file.string());
} catch (const config::unreadable& why) {
  config::refuse_file(file, why);
}

shard_files find_shards(const config::tar_shards& what,
                        const fs::path& data_dir, data_part wanted) {
  shard_files out;
  if (!what.train.empty()) {
    out.train = named(what.train, data_dir);
    if (wants_test(wanted))
      out.test = named(what.validation, data_dir);
    return out;
  }
  out.train = beginning_with("train", data_dir);
  if (wants_test(wanted))
    out.test = beginning_with("val", data_dir);
  if (wants_test(wanted) && out.test.empty())
    out.test = beginning_with("test", data_dir);
  if (out.train.empty() || (wants_test(wanted) && out.test.empty()))
    throw run_error(
      data_dir.string() + ": has no " +
      (out.train.empty() ? "train*.tar" : "val*.tar or test*.tar"));
  return out;
}

// The training shards define the number of classes, also for nodes that do not
// train.
source_pair load_tar(const config::tar_shards& what, const fs::path& data_dir,
                     data_part wanted) {
  auto files = find_shards(what, data_dir, wanted);
  auto train = std::make_shared<tar_store>(std::move(files.train));
  auto classes = train->classes();
  auto require_samples = [&](const tar_store& part, const char* use) {
    if (part.size() == 0)
      throw run_error(data_dir.string() + ": the shards for " + use +
                      " hold no samples");
  };
  require_samples(*train, "training");
  source_pair out;
  if (wants_train(wanted))
    out.train = {train, {3, 0, 0}, classes};
  if (!wants_test(wanted))
    return out;
  auto test = std::make_shared<tar_store>(std::move(files.test));
  require_samples(*test, "testing");
  if (test->classes() > classes)
    throw run_error(data_dir.string() + ": the shards for testing have label " +
                    std::to_string(test->classes() - 1) +
                    ", those for training none above " +
                    std::to_string(classes - 1));
  out.test = {test, {3, 0, 0}, classes};
  return out;
}

source_survey survey_tar(const config::tar_shards& what,
                         const fs::path& data_dir) {
  find_shards(what, data_dir);
  return {.shape = {3, 0, 0}, .classes = std::nullopt, .in_memory = false};
}

} // namespace troupe::data
