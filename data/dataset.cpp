#include "data/dataset.hpp"

#include "config/failure.hpp"
#include "data/sources.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace troupe::data {

namespace {

uint64_t pixels_per_sample(const dataset::parts& content) {
  return static_cast<uint64_t>(content.shape[0] * content.shape[1] *
                               content.shape[2]);
}

template <class T>
void look_up(const uint8_t* from, uint64_t count,
             const std::array<T, 256>& table, T* to) {
  for (uint64_t i = 0; i < count; ++i) {
    to[i] = table[from[i]];
  }
}

const idx_dataset_description mnist{"mnist", "MNIST", 0.1307, 0.3081};
const idx_dataset_description fashion_mnist{"fashion-mnist", "FashionMNIST",
                                            0.2860, 0.3530};

std::string join(const std::vector<std::string>& words) {
  std::string result;
  for (const auto& word : words) {
    result += (result.empty() ? "" : ", ") + word;
  }
  return result;
}

} // namespace

dataset::dataset(parts content) : content_(std::move(content)) {
  if (content_.pixels.size() != size() * pixels_per_sample(content_)) {
    throw run_error(name() + ": " + std::to_string(content_.pixels.size()) +
                    " pixels do not make " + std::to_string(size()) +
                    " images");
  }
  auto highest = std::ranges::max_element(content_.labels);
  if (highest != content_.labels.end() && *highest >= classes()) {
    throw run_error(name() + ": label " + std::to_string(*highest) +
                    " is not below " + std::to_string(classes()));
  }
  for (int i = 0; i < 256; ++i) {
    double value = (i / 255.0 - content_.mean) / content_.deviation;
    double_values_[i] = value;
    float_values_[i] = static_cast<float>(value);
  }
}

std::vector<int64_t> dataset::shape() const {
  return {content_.shape.begin(), content_.shape.end()};
}

batch dataset::gather(std::span<const int64_t> indices,
                      config::scalar_type dtype) const {
  auto n = static_cast<int64_t>(indices.size());
  auto [channels, height, width] = content_.shape;
  bool wide = dtype == config::scalar_type::float64;
  batch result{
    at::empty({n, channels, height, width}, wide ? at::kDouble : at::kFloat),
    at::empty({n}, at::kLong), indices.size()};
  auto* targets = result.targets.mutable_data_ptr<int64_t>();
  auto pixels = pixels_per_sample(content_);
  for (size_t i = 0; i < indices.size(); ++i) {
    auto index = static_cast<uint64_t>(indices[i]);
    if (index >= size()) {
      throw run_error(name() + ": there is no sample " +
                      std::to_string(indices[i]) + " among " +
                      std::to_string(size()));
    }
    targets[i] = content_.labels[index];
    const auto* from = content_.pixels.data() + index * pixels;
    if (wide) {
      look_up(from, pixels, double_values_,
              result.inputs.mutable_data_ptr<double>() + i * pixels);
    } else {
      look_up(from, pixels, float_values_,
              result.inputs.mutable_data_ptr<float>() + i * pixels);
    }
  }
  return result;
}

batch dataset::gather_range(uint64_t first, uint64_t count,
                            config::scalar_type dtype) const {
  std::vector<int64_t> indices(count);
  std::iota(indices.begin(), indices.end(), static_cast<int64_t>(first));
  return gather(indices, dtype);
}

dataset_pair load_dataset(const config::data_settings& settings,
                          uint64_t seed) {
  if (settings.dataset == "digits") {
    return load_digits(seed);
  }
  if (config::is_synthetic(settings.dataset)) {
    return make_synthetic(config::parse_synthetic(settings.dataset));
  }
  for (const auto* known : {&mnist, &fashion_mnist}) {
    if (settings.dataset == known->name) {
      if (settings.data_dir.empty()) {
        throw usage_error("the data set " + known->name +
                          " needs --data-dir, the folder of its IDX files");
      }
      return load_idx_dataset(*known, settings.data_dir);
    }
  }
  throw usage_error("unknown data set '" + settings.dataset + "'; there are " +
                    join(dataset_names()));
}

std::vector<std::string> dataset_names() {
  return {"digits", mnist.name, fashion_mnist.name, "synthetic(...)"};
}

void require_batch(const dataset& set, uint64_t batch_size) {
  if (set.size() < batch_size) {
    throw run_error(
      "the data set " + set.name() + " has " + std::to_string(set.size()) +
      " samples, fewer than a batch of " + std::to_string(batch_size));
  }
}

} // namespace troupe::data
