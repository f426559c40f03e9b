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

std::string_view base_of(std::string_view name) {
  return name.substr(name.rfind('/') + 1); // All of it if there is no slash.
}

/// The name up to its last dot.
std::string_view without_ending(std::string_view name) {
  return name.substr(0, name.rfind('.'));
}

/// Groups the members of one tar file. @pre The members taken outlive it.
class grouper {
public:
  grouper(const bytes_at& read, const std::string& name, left_out& without)
    : read_(read), name_(name), without_(without) {
    // nop
  }

  void add_member(const tar_member& member) {
    if (auto hidden = hidden_part(member.name); !hidden.empty())
      return without_.add_hidden(hidden);
    auto [stem, kind] = split_name(member.name);
    if (kind.empty())
      return without_.add(base_of(member.name));
    if (stem != stem_) {
      finish_group();
      stem_ = stem;
    }
    group_.push_back(&member);
  }

  std::vector<tar_sample> finish() {
    finish_group();
    return std::move(samples_);
  }

private:
  using members = std::vector<const tar_member*>;

  [[noreturn]] void fail(uint64_t at, const std::string& reason) const {
    throw run_error(name_ + ": at byte " + std::to_string(at) +
                    ": the sample " + config::in_quotes(stem_) + " " + reason);
  }

  void finish_group() {
    auto group = std::exchange(group_, {});
    members images, labels;
    for (const auto* each : group)
      if (has_image_name(each->name))
        images.push_back(each);
      else if (config::in_small_letters(each->name).ends_with(".cls"))
        labels.push_back(each);
    if (images.empty() && !labels.empty())
      fail(group.front()->header, "has no .jpg, .jpeg or .png beside its .cls");
    if (images.size() == 1)
      return add_sample(group, *images.front(), labels);
    auto before = samples_.size();
    for (const auto* each : images)
      add_one_of_several(*each, labels);
    divide(group, before);
    if (!images.empty() && !labels.empty())
      fail(labels.front()->header,
           "has no image beside " + config::in_quotes(labels.front()->name));
    if (images.empty())
      for (const auto* each : group)
        without_.add(base_of(each->name));
  }

  /// Adds the sample of a group with one image, the usual case. Of several
  /// labels STEM.cls counts.
  void add_sample(const members& group, const tar_member& image,
                  members& labels) {
    const auto* label = take_label_of(stem_, labels);
    auto is_usual = label != nullptr;
    if (!is_usual)
      label = take_label_of(without_ending(image.name), labels);
    if (!label)
      fail(group.front()->header, "has no " + stem_ + ".cls beside its image");
    if (!is_usual && !labels.empty())
      fail(labels.front()->header,
           "has no image beside " + config::in_quotes(labels.front()->name));
    add(image, *label);
    samples_.back().first = group.front()->header;
    samples_.back().last = group.back()->end;
  }

  /// Adds one of several samples of a group, whose names differ after the first
  /// dot. Its image and label must follow each other.
  void add_one_of_several(const tar_member& image, members& labels) {
    auto own = std::string{without_ending(image.name)};
    const auto* label = take_label_of(own, labels);
    if (!label)
      fail(image.header, "has two images, and no " +
                           config::in_quotes(own + ".cls") + " for " +
                           config::in_quotes(image.name));
    auto begin = std::min(image.header, label->header);
    if (!samples_.empty() && samples_.back().last > begin)
      fail(begin, "has image and label of " + config::in_quotes(own) +
                    " apart: they must follow each other");
    add(image, *label);
    samples_.back().first = begin;
    samples_.back().last = std::max(image.end, label->end);
  }

  /// Divides the group among its samples: other members go with the sample
  /// before them.
  void divide(const members& group, size_t before) {
    if (samples_.size() == before)
      return;
    samples_[before].first = group.front()->header;
    for (auto i = before + 1; i < samples_.size(); ++i)
      samples_[i - 1].last = samples_[i].first;
    samples_.back().last = group.back()->end;
  }

  /// Takes the label of this name out of the others; null if there is none.
  const tar_member* take_label_of(std::string_view own, members& labels) const {
    auto is_of = [own](const tar_member* x) {
      return without_ending(x->name) == own;
    };
    auto found = std::ranges::find_if(labels, is_of);
    if (found == labels.end())
      return nullptr;
    const auto* out = *found;
    labels.erase(found);
    if (auto next = std::ranges::find_if(labels, is_of); next != labels.end())
      fail((*next)->header, "has two labels");
    return out;
  }

  void add(const tar_member& image, const tar_member& label) {
    tar_sample out;
    out.image = image.name;
    out.begin = image.begin;
    out.size = image.size;
    out.label = number_in(label);
    samples_.push_back(std::move(out));
  }

  int64_t number_in(const tar_member& member) const {
    std::string text(std::min<uint64_t>(member.size, 32), '\0');
    read_(member.begin, {reinterpret_cast<uint8_t*>(text.data()), text.size()});
    std::string_view digits{text};
    while (!digits.empty() && (digits.back() == '\n' || digits.back() == '\r'))
      digits.remove_suffix(1);
    digits = config::trim(digits);
    if (digits.empty() || digits.size() > 7 ||
        digits.find_first_not_of("0123456789") != digits.npos)
      fail(member.begin,
           "has a label that is no number: " + config::in_quotes(digits));
    int64_t out = 0;
    for (auto c : digits)
      out = out * 10 + (c - '0');
    if (out > highest_label)
      fail(member.begin, "has the label " + std::string{digits} +
                           "; the limit is " + std::to_string(highest_label));
    return out;
  }

  const bytes_at& read_;
  const std::string& name_;
  left_out& without_;
  std::string stem_;
  members group_; ///< Of this stem, in order.
  std::vector<tar_sample> samples_;
};

class tar_store final : public sample_store {
public:
  tar_store(std::vector<fs::path> shards, damage_list* damage)
    : shards_(std::move(shards)) {
    for (uint32_t i = 0; i < shards_.size(); ++i)
      note_damage(damage, [&] {
        for (auto& each : index_shard(shards_[i], &without_)) {
          classes_ = std::max(classes_, each.label + 1);
          samples_.push_back({i, std::move(each)});
        }
      });
  }

  const left_out& without() const noexcept { return without_; }

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
  left_out without_;
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
                                      const std::string& name,
                                      left_out* without) {
  left_out not_said;
  auto& counted = without ? *without : not_said;
  auto members = index_tar(read, size, name, &counted);
  grouper groups{read, name, counted};
  for (const auto& each : members)
    groups.add_member(each);
  return groups.finish();
}

std::vector<tar_sample> index_shard(const fs::path& file,
                                    left_out* without) try {
  config::input_file in{file};
  return index_samples(
    [&in](uint64_t at, std::span<uint8_t> to) {
      return in.read(at, std::as_writable_bytes(to));
    },
    in.size(), file.string(), without);
} catch (const config::unreadable& why) {
  config::refuse_file(file, why);
}

shard_files find_shards(const config::tar_shards& archives,
                        const fs::path& data_dir, data_part wanted) {
  shard_files out;
  if (!archives.train.empty()) {
    out.train = named(archives.train, data_dir);
    if (wants_test(wanted))
      out.test = named(archives.validation, data_dir);
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
source_pair load_tar(const config::tar_shards& archives,
                     const fs::path& data_dir, data_part wanted,
                     damage_list* damage) {
  auto files = find_shards(archives, data_dir, wanted);
  auto train = std::make_shared<tar_store>(std::move(files.train), damage);
  auto classes = train->classes();
  auto require_samples = [&](const tar_store& part, const char* use) {
    if (part.size() == 0 && (!damage || damage->empty()))
      throw run_error(data_dir.string() + ": the shards for " + use +
                      " hold no samples");
  };
  require_samples(*train, "training");
  source_pair out;
  if (wants_train(wanted))
    out.train = {train, {3, 0, 0}, classes, train->without()};
  if (!wants_test(wanted))
    return out;
  auto test = std::make_shared<tar_store>(std::move(files.test), damage);
  require_samples(*test, "testing");
  auto more = test->classes() > classes;
  if (more && (!damage || damage->empty()))
    throw run_error(data_dir.string() + ": the shards for testing have label " +
                    std::to_string(test->classes() - 1) +
                    ", those for training none above " +
                    std::to_string(classes - 1));
  out.test = {test,
              {3, 0, 0},
              more ? test->classes() : classes, // Some shards are left out.
              test->without()};
  return out;
}

source_survey survey_tar(const config::tar_shards& archives,
                         const fs::path& data_dir) {
  find_shards(archives, data_dir);
  return {.shape = {3, 0, 0}, .classes = std::nullopt, .in_memory = false};
}

} // namespace troupe::data
