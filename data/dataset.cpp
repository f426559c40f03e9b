#include "data/dataset.hpp"

#include "config/text/failure.hpp"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace troupe::data {

namespace {

/// One channel of a row of an image.
struct channel_row {
  const uint8_t* pixels;
  int64_t step; ///< Bytes from one pixel to the next.
  int64_t count;
};

/// `count` pixels from `first` on, some of which may lie outside of the image.
template <class T>
void look_up_row(const channel_row& row, int64_t first, int64_t count,
                 const std::array<T, 256>& values, T* to) {
  auto begin = std::clamp<int64_t>(-first, 0, count);
  auto end = std::clamp<int64_t>(row.count - first, begin, count);
  std::fill(to, to + begin, values[0]);
  const auto* from = row.pixels + (first + begin) * row.step;
  if (row.step == 1)
    for (auto x = begin; x < end; ++x)
      to[x] = values[from[x - begin]];
  else
    for (auto x = begin; x < end; ++x, from += row.step)
      to[x] = values[*from];
  std::fill(to + end, to + count, values[0]);
}

/// Crops, flips and normalises: [C, height, width].
template <class T>
void lay_out(const transformed& sample,
             const std::vector<std::array<T, 256>>& values, T* to) {
  const auto& image = sample.image;
  const auto& part = sample.crop;
  for (int64_t c = 0; c < image.channels; ++c) {
    const auto& table = values[static_cast<size_t>(c)];
    for (int64_t y = 0; y < part.height; ++y, to += part.width) {
      auto at = part.top + y;
      if (at < 0 || at >= image.height)
        std::fill(to, to + part.width, table[0]);
      else
        look_up_row({image.at(at, 0, c), image.column, image.width}, part.left,
                    part.width, table, to);
      if (sample.flip)
        std::reverse(to, to + part.width);
    }
  }
}

std::shared_ptr<const sample_store> store_of(dataset::parts& content) {
  return std::make_shared<memory_store>(
    memory_store::parts{content.name, content.shape, content.classes,
                        std::move(content.pixels), std::move(content.labels)});
}

/// Keeps the samples that have a target.
void drop_left_out(batch& of) {
  const auto* targets = of.targets.const_data_ptr<int64_t>();
  std::vector<int64_t> kept;
  for (int64_t i = 0; i < of.targets.numel(); ++i)
    if (targets[i] >= 0)
      kept.push_back(i);
  if (kept.size() == of.samples)
    return;
  auto rows = at::tensor(kept, at::kLong);
  of.inputs = of.inputs.index_select(0, rows);
  of.targets = of.targets.index_select(0, rows);
  of.samples = kept.size();
}

template <class T>
std::vector<std::array<T, 256>> tables_of(const normalisation& scale,
                                          int64_t channels) {
  std::vector<std::array<T, 256>> out(static_cast<size_t>(channels));
  for (size_t c = 0; c < out.size(); ++c) {
    auto mean = scale.mean[scale.mean.size() == 1 ? 0 : c];
    auto deviation = scale.deviation[scale.deviation.size() == 1 ? 0 : c];
    for (int i = 0; i < 256; ++i)
      out[c][static_cast<size_t>(i)] =
        static_cast<T>((i / 255.0 - mean) / deviation);
  }
  return out;
}

} // namespace

batch_memory memory_for(const std::string& device) {
  return device.starts_with("cuda") && at::hasCUDA() ? batch_memory::pinned
                                                     : batch_memory::pageable;
}

dataset::dataset(parts content)
  : dataset(store_of(content), {.name = content.name,
                                .shape = content.shape,
                                .classes = content.classes,
                                .scale = content.scale}) {
  // nop
}

dataset::dataset(std::shared_ptr<const sample_store> store, description dataset)
  : store_(std::move(store)), what_(std::move(dataset)),
    float_values_(tables_of<float>(what_.scale, what_.shape[0])),
    double_values_(tables_of<double>(what_.scale, what_.shape[0])) {
  // nop
}

std::vector<int64_t> dataset::shape() const {
  return {what_.shape.begin(), what_.shape.end()};
}

uint64_t dataset::digest() const {
  uint64_t hash = 0xcbf29ce484222325;
  for (uint64_t i = 0; i < size(); ++i)
    hash = (hash ^ static_cast<uint64_t>(store_->label(i))) * 0x100000001b3;
  return hash;
}

uint64_t dataset::checked(int64_t index) const {
  if (index < 0 || static_cast<uint64_t>(index) >= size())
    throw run_error(name() + ": there is no sample " + std::to_string(index) +
                    " among " + std::to_string(size()));
  return static_cast<uint64_t>(index);
}

uint64_t dataset::skipped() const {
  std::lock_guard lock{access_};
  return bad_.size();
}

std::vector<std::string> dataset::newly_skipped() const {
  std::lock_guard lock{access_};
  return std::exchange(complaints_, {});
}

bool dataset::is_bad(uint64_t index) const {
  std::lock_guard lock{access_};
  return bad_.contains(index);
}

void dataset::note_bad(uint64_t index, const std::string& why) const {
  std::lock_guard lock{access_};
  if (bad_.insert(index).second)
    complaints_.push_back(why);
}

template <class T>
int64_t dataset::fill(uint64_t index, uint64_t epoch, const tables<T>& values,
                      T* to) const {
  auto load = [this, index](const window_choice& choose) {
    return store_->load(index, choose);
  };
  auto made = transform(what_.how, epoch, index, load);
  if (made.image.channels != what_.shape[0] ||
      made.crop.height != what_.shape[1] || made.crop.width != what_.shape[2])
    throw run_error(name() + ": sample " + std::to_string(index) +
                    " has another shape than the data set");
  lay_out(made, values, to);
  return store_->label(index);
}

template <class T>
int64_t dataset::fill_or_skip(uint64_t index, uint64_t epoch,
                              const tables<T>& values, T* to) const {
  if (what_.bad == config::bad_sample_rule::fail)
    return fill(index, epoch, values, to);
  for (uint64_t tried = 0; tried < size(); ++tried) {
    auto at = (index + tried) % size();
    try {
      if (!is_bad(at))
        return fill(at, epoch, values, to);
    } catch (const run_error& why) {
      note_bad(at, why.what());
    }
    if (!what_.training)
      return -1;
  }
  throw run_error(name() + ": none of the " + std::to_string(size()) +
                  " samples can be read");
}

template <class T>
batch dataset::gather_as(std::span<const int64_t> indices, uint64_t epoch,
                         batch_memory where, const tables<T>& values) const {
  auto n = static_cast<int64_t>(indices.size());
  auto [channels, height, width] = what_.shape;
  auto pixels = channels * height * width;
  auto type = sizeof(T) == sizeof(double) ? at::kDouble : at::kFloat;
  auto pinned = where == batch_memory::pinned;
  batch result{
    at::empty({n, channels, height, width},
              at::TensorOptions{type}.pinned_memory(pinned)),
    at::empty({n}, at::TensorOptions{at::kLong}.pinned_memory(pinned)),
    indices.size()};
  auto* inputs = result.inputs.mutable_data_ptr<T>();
  auto* targets = result.targets.mutable_data_ptr<int64_t>();
  auto fill_part = [&](int64_t begin, int64_t end) {
    for (auto i = begin; i < end; ++i)
      targets[i] = fill_or_skip(checked(indices[static_cast<size_t>(i)]), epoch,
                                values, inputs + i * pixels);
  };
  if (store_->decodes())
    at::parallel_for(0, n, 1, fill_part);
  else
    fill_part(0, n);
  drop_left_out(result);
  return result;
}

bool dataset::only_copies() const noexcept {
  const auto& random = what_.how.random;
  return !store_->decodes() && what_.how.side == 0 && !random.crop &&
         !random.resized_crop && !random.flip && !random.jitter;
}

batch dataset::gather(std::span<const int64_t> indices,
                      config::scalar_type dtype, uint64_t epoch,
                      batch_memory where) const {
  if (dtype == config::scalar_type::float64)
    return gather_as(indices, epoch, where, double_values_);
  return gather_as(indices, epoch, where, float_values_);
}

batch dataset::gather_range(uint64_t first, uint64_t count,
                            config::scalar_type dtype,
                            batch_memory where) const {
  std::vector<int64_t> indices(count);
  std::iota(indices.begin(), indices.end(), static_cast<int64_t>(first));
  return gather(indices, dtype, 0, where);
}

void require_batch(const dataset& set, uint64_t batch_size) {
  require_batch(set.name(), set.size(), batch_size);
}

void require_batch(const std::string& name, uint64_t samples,
                   uint64_t batch_size) {
  if (samples < batch_size) {
    throw run_error("the data set " + name + " has " + std::to_string(samples) +
                    " samples, fewer than a batch of " +
                    std::to_string(batch_size));
  }
}

} // namespace troupe::data
