#include "data/formats/registry.hpp"

#include "config/schema/known_names.hpp"
#include "config/text/call.hpp"
#include "config/text/failure.hpp"
#include "config/text/registered.hpp"
#include "data/formats/registration.hpp"
#include "data/formats/survey.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <utility>

namespace troupe::data {

namespace {

using config::data_settings;

const normalisation of_mnist{{0.1307}, {0.3081}};
const normalisation of_emnist{{0.1751}, {0.3332}};
const normalisation of_imagenet{{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}};

constexpr const char* cifar_training = "crop(padding=4)+flip";
constexpr const char* image_training = "resized-crop+flip";

dataset_entry idx(const idx_dataset_description& description,
                  const normalisation& scale) {
  auto train = description.train, test = description.test,
       before = std::string{};
  if (train.ends_with("-train")) {
    before = train.substr(0, train.size() - 5);
    train = "train";
    test = "test";
  }
  auto files = before + "{" + train + "," + test +
               "}-{images-idx3,labels-idx1}-ubyte, plain or .gz";
  return {description.name,
          "1x28x28",
          std::to_string(description.classes),
          "none",
          files,
          scale,
          [description](const data_settings& from, uint64_t, data_part wanted) {
            return load_idx(description, from.data_dir, wanted);
          },
          [description](const data_settings& from) {
            return survey_idx(description, from.data_dir);
          },
          [description](const data_settings& from, damage_list& damage) {
            return load_idx(description, from.data_dir, data_part::both,
                            &damage);
          }};
}

dataset_entry emnist(const std::string& split, uint32_t classes) {
  auto name = "emnist-" + split;
  return idx({name, "EMNIST", classes, name + "-train", name + "-test"},
             of_emnist);
}

dataset_entry cifar(const cifar_description& description,
                    const normalisation& scale, const std::string& files) {
  return {description.name,
          "3x32x32",
          std::to_string(description.classes),
          cifar_training,
          files,
          scale,
          [description](const data_settings& from, uint64_t, data_part wanted) {
            return load_cifar(description, from.data_dir, wanted);
          },
          [description](const data_settings& from) {
            return survey_cifar(description, from.data_dir);
          },
          [description](const data_settings& from, damage_list& damage) {
            return load_cifar(description, from.data_dir, data_part::both,
                              &damage);
          }};
}

std::vector<dataset_entry> make_registry() {
  return {
    // The normalisation is that of the 1,797 images at 28x28, in [0, 1].
    {"digits",
     "1x28x28",
     "10",
     "none",
     "",
     {{0.3053}, {0.3247}},
     [](const data_settings&, uint64_t seed, data_part) {
       return load_digits(seed); // Both are cut from one file.
     },
     [](const data_settings&) {
       auto all = load_digits(0); // In memory anyway, and few.
       return source_survey{all.train.shape, all.train.classes,
                            all.train.store->size(), all.test.store->size()};
     }},
    idx({"mnist", "MNIST"}, of_mnist),
    idx({"fashion-mnist", "FashionMNIST"}, {{0.2860}, {0.3530}}),
    emnist("balanced", 47),
    emnist("byclass", 62),
    emnist("bymerge", 47),
    emnist("digits", 10),
    emnist("letters", 27), // From 1 on; there is no 0.
    emnist("mnist", 10),
    cifar({"cifar10", "cifar-10-batches-bin", 10, 1, "data_batch_#.bin",
           "test_batch.bin", "cifar-10-batches-py", "batches.meta"},
          {{0.4914, 0.4822, 0.4465}, {0.2470, 0.2435, 0.2616}},
          "data_batch_1.bin to data_batch_5.bin, test_batch.bin"),
    cifar({"cifar100", "cifar-100-binary", 100, 2, "train.bin", "test.bin",
           "cifar-100-python", "meta"},
          {{0.5071, 0.4865, 0.4409}, {0.2673, 0.2564, 0.2762}},
          "train.bin, test.bin"),
    {"folder", "any", "any", image_training,
     "train/CLASS/IMAGE, val/CLASS/IMAGE (or test/...); JPEG, PNG", of_imagenet,
     [](const data_settings& from, uint64_t, data_part wanted) {
       return load_folder(from.data_dir, wanted);
     },
     [](const data_settings& from) { return survey_folder(from.data_dir); },
     [](const data_settings& from, damage_list& damage) {
       return load_folder(from.data_dir, data_part::both, &damage);
     }},
    {"tar", "any", "any", image_training,
     "train*.tar, val*.tar (or test*.tar) of STEM.{jpg,jpeg,png} and STEM.cls",
     of_imagenet,
     [](const data_settings& from, uint64_t, data_part wanted) {
       return load_tar(config::parse_tar_shards(from.dataset), from.data_dir,
                       wanted);
     },
     [](const data_settings& from) {
       return survey_tar(config::parse_tar_shards(from.dataset), from.data_dir);
     },
     [](const data_settings& from, damage_list& damage) {
       return load_tar(config::parse_tar_shards(from.dataset), from.data_dir,
                       data_part::both, &damage);
     }},
    {"synthetic",
     "any",
     "any",
     "none",
     "",
     {{0.5}, {0.25}},
     [](const data_settings& from, uint64_t, data_part wanted) {
       return make_synthetic(config::parse_synthetic(from.dataset), wanted);
     },
     [](const data_settings& from) {
       auto what = config::parse_synthetic(from.dataset);
       return source_survey{what.shape, what.classes, what.samples,
                            what.test_samples()};
     }},
    {"external",
     "any",
     "any",
     "none",
     "",
     {},
     [](const data_settings& from, uint64_t, data_part) {
       return make_external(config::parse_external(from.dataset));
     },
     [](const data_settings& from) {
       auto what = config::parse_external(from.dataset);
       return source_survey{{1, 1, 1}, std::nullopt, what.samples, {}, false};
     }},
  };
}

using extents = std::array<int64_t, 3>;

/// The transforms for the samples of a part, which have this shape.
transforms transforms_for(const config::data_settings& settings,
                          const dataset_entry& entry, const extents& shape,
                          uint64_t seed, bool training) {
  transforms out;
  out.seed = seed;
  auto any_size = shape[1] == 0;
  if (any_size)
    out.side = settings.image_size;
  if (!training)
    return out;
  out.random = config::parse_augmentation(settings.augment);
  if (out.random.automatic)
    out.random = config::parse_augmentation(entry.training);
  if (out.random.resized_crop && !any_size)
    out.side = shape[1];
  if (out.random.resized_crop && shape[1] != shape[2])
    throw usage_error("--augment " + settings.augment + ": the images of " +
                      settings.dataset + " are not square");
  return out;
}

/// The shape of samples after these transforms.
extents shape_after(const transforms& how, extents shape) {
  if (shape[1] == 0)
    shape[1] = shape[2] = how.side;
  return shape;
}

std::string name_of(const std::string& dataset) {
  return config::is_synthetic(dataset)
           ? config::to_string(config::parse_synthetic(dataset))
           : dataset;
}

/// The entry of the data set. Throws if the set has files and there is no
/// data-dir.
const dataset_entry& entry_for(const config::data_settings& settings) {
  const auto& entry = entry_of(settings.dataset);
  if (!entry.files.empty() && settings.data_dir.empty())
    throw usage_error("the data set " + entry.name +
                      " needs --data-dir, the folder of its files");
  return entry;
}

std::shared_ptr<const dataset> make_part(const config::data_settings& settings,
                                         const dataset_entry& entry,
                                         const dataset_source& source,
                                         uint64_t seed, bool training) {
  auto how = transforms_for(settings, entry, source.shape, seed, training);
  return std::make_shared<const dataset>(
    source.store, dataset::description{
                    name_of(settings.dataset), shape_after(how, source.shape),
                    source.classes, entry.scale, how, settings.on_bad_sample,
                    training, source.without.text()});
}

/// Troupe's own, then those of the user's program in the order of registration.
std::vector<dataset_entry>& table() {
  static auto all = [] {
    auto own = make_registry();
    for (const auto& each : own)
      config::add_dataset(each.name, !each.files.empty(), each.image);
    return own;
  }();
  return all;
}

/// Makes them known to config before main.
[[maybe_unused]] const auto& known = table();

const std::vector<dataset_entry>& checked_table() {
  const auto& all = table();
  std::vector<config::registered_name> names;
  for (const auto& each : all)
    names.push_back({each.name, each.load && each.survey});
  config::require_registered("data set", names);
  return all;
}

} // namespace

/// Programs that link the library contain this source although they may not
/// call it (CMakeLists.txt).
extern "C" const char troupe_datasets_are_known = 1;

register_dataset::register_dataset(dataset_entry entry) {
  auto& all = table();
  config::add_dataset(entry.name, !entry.files.empty(), entry.image);
  all.push_back(std::move(entry));
}

const std::vector<dataset_entry>& dataset_registry() {
  static const auto& all = checked_table();
  return all;
}

const dataset_entry& entry_of(const std::string& dataset) {
  const auto& all = dataset_registry();
  auto found =
    std::ranges::find(all, config::name_of_call(dataset), &dataset_entry::name);
  if (found == all.end())
    throw usage_error("unknown data set '" + dataset +
                      "'; --list-datasets shows all");
  return *found;
}

std::optional<dataset_facts> facts_of(const std::string& dataset) {
  const auto& entry = entry_of(dataset);
  dataset_facts out;
  auto& [channels, height, width] = out.shape;
  if (std::sscanf(entry.image.c_str(), "%" SCNd64 "x%" SCNd64 "x%" SCNd64,
                  &channels, &height, &width) != 3 ||
      std::sscanf(entry.classes.c_str(), "%" SCNd64, &out.classes) != 1)
    return std::nullopt;
  return out;
}

dataset_survey survey_dataset(const config::data_settings& settings) {
  const auto& entry = entry_for(settings);
  auto found = entry.survey(settings);
  auto how = transforms_for(settings, entry, found.shape, 0, true);
  dataset_survey out{name_of(settings.dataset), shape_after(how, found.shape),
                     found.classes, found.train, found.test};
  out.without = std::move(found.without);
  auto [channels, height, width] = found.shape;
  if (found.in_memory)
    out.resident = (found.train.value_or(0) + found.test.value_or(0)) *
                   static_cast<uint64_t>(channels * height * width + 1);
  return out;
}

dataset_pair load_dataset(const config::data_settings& settings, uint64_t seed,
                          data_part wanted) {
  const auto& entry = entry_for(settings);
  auto source = entry.load(settings, seed, wanted);
  dataset_pair out;
  if (wants_train(wanted))
    out.train = make_part(settings, entry, source.train, seed, true);
  if (wants_test(wanted))
    out.test = make_part(settings, entry, source.test, seed, false);
  return out;
}

} // namespace troupe::data
