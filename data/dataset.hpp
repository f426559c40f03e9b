#pragma once
// Data sets, and batches made from them. A data set has a store of samples, the
// transforms applied to each, and the mapping of bytes to numbers. Loaders and
// scorers share it. Its samples never change: any number of threads may gather
// from it.

#include "config/text/settings.hpp"
#include "data/store.hpp"
#include "data/transforms/transforms.hpp"

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

namespace c10 {
struct Event;
} // namespace c10

namespace troupe::data {

/// The input of one step of training or evaluation. In the host's memory, as
/// data sets make it, or on a GPU, to which it has been copied ahead.
struct batch {
  at::Tensor inputs;    ///< [n, C, H, W], normalised, of the wanted dtype.
  at::Tensor targets;   ///< [n], int64, in [0, classes).
  uint64_t samples = 0; ///< n
  /// On a GPU: after it inputs and targets may be read.
  std::shared_ptr<const c10::Event> arrived{};
};

/// The kind of memory for batches.
enum class batch_memory : uint8_t {
  pageable,
  pinned ///< A GPU can copy from it asynchronously.
};

/// The kind for this device: pinned for a GPU if LibTorch supports it, else
/// pageable.
batch_memory memory_for(const std::string& device);

/// How bytes become numbers: x is (x / 255 - mean) / deviation. One value for
/// each channel, or one for all.
struct normalisation {
  std::vector<double> mean{0};
  std::vector<double> deviation{1};
};

class dataset {
public:
  /// A data set in memory whose samples are only normalised.
  struct parts {
    std::string name;
    std::array<int64_t, 3> shape{}; ///< C, H, W
    int64_t classes = 0;
    std::vector<uint8_t> pixels; ///< [n, C, H, W]
    std::vector<uint8_t> labels; ///< [n]
    normalisation scale;
  };

  /// @throws run_error if the parts do not fit together.
  explicit dataset(parts content);

  /// The properties of a data set besides its samples.
  struct description {
    std::string name;
    std::array<int64_t, 3> shape{}; ///< C, H, W of a transformed sample.
    int64_t classes = 0;
    normalisation scale;
    transforms how = {};
    /// What happens to samples that cannot be read.
    config::bad_sample_rule bad = config::bad_sample_rule::fail;
    bool training = false; ///< Batches must be full.
    std::string without{}; ///< The files left out; empty: none.
  };

  /// @pre store is not null
  dataset(std::shared_ptr<const sample_store> store, description dataset);

  const std::string& name() const noexcept { return what_.name; }

  /// Number of samples.
  uint64_t size() const noexcept { return store_->size(); }

  /// Shape of one sample: C, H, W.
  std::vector<int64_t> shape() const;

  int64_t classes() const noexcept { return what_.classes; }

  /// Whether a batch only copies samples from memory: nothing is read, decoded
  /// or randomly changed for it.
  bool only_copies() const noexcept;

  /// What lies among its files and is not used (left_out.hpp); empty: nothing.
  const std::string& without() const noexcept { return what_.without; }

  /// A digest of the labels, in order: tells this data set from others.
  uint64_t digest() const;

  /// A digest of the samples; see `sample_store`.
  uint64_t content_digest() const { return store_->content_digest(); }

  /// Makes a batch of the samples at `indices`, in that order, in new tensors.
  /// Random changes depend only on the seed, `epoch` and the sample's index.
  /// Values come from a table: the bits are the same on every platform. A
  /// sample that cannot be read is an error or, if the description says so, is
  /// replaced by another one (training) or left out.
  /// @throws run_error if an index is not in [0, size()), or about a sample
  /// that cannot be read.
  batch gather(std::span<const int64_t> indices, config::scalar_type dtype,
               uint64_t epoch = 0,
               batch_memory where = batch_memory::pageable) const;

  /// Makes a batch of the samples first .. first + count - 1.
  batch gather_range(uint64_t first, uint64_t count, config::scalar_type dtype,
                     batch_memory where = batch_memory::pageable) const;

  /// The number of samples skipped so far because they cannot be read.
  uint64_t skipped() const;

  /// The reasons for the samples skipped since the last call.
  std::vector<std::string> newly_skipped() const;

private:
  template <class T>
  using tables = std::vector<std::array<T, 256>>; ///< One for each channel.

  uint64_t checked(int64_t index) const;
  bool is_bad(uint64_t index) const;
  void note_bad(uint64_t index, const std::string& why) const;

  /// Loads, transforms and normalises a sample; returns its label.
  template <class T>
  int64_t fill(uint64_t index, uint64_t epoch, const tables<T>& values,
               T* to) const;

  /// The same, but replaces a sample that cannot be read by another one, where
  /// the rule allows it; -1 if there is none.
  template <class T>
  int64_t fill_or_skip(uint64_t index, uint64_t epoch, const tables<T>& values,
                       T* to) const;

  template <class T>
  batch gather_as(std::span<const int64_t> indices, uint64_t epoch,
                  batch_memory where, const tables<T>& values) const;

  std::shared_ptr<const sample_store> store_;
  description what_;
  tables<float> float_values_;
  tables<double> double_values_;
  mutable std::mutex access_;                ///< Guards what follows.
  mutable std::unordered_set<uint64_t> bad_; ///< Samples not to be read.
  mutable std::vector<std::string> complaints_;
};

/// The parts of a data set; null for a part that was not requested.
struct dataset_pair {
  std::shared_ptr<const dataset> train;
  std::shared_ptr<const dataset> test;
};

/// Loads the data set named in the settings, with the transforms that they ask
/// for. Of a part that is not wanted no samples are read, and its files may be
/// absent unless they define the classes (folder, tar). `seed` determines the
/// split of data sets that come unsplit (digits), and the random changes.
/// @throws usage_error if the name is unknown, a needed data-dir is not given
/// or the transforms do not suit the data set; run_error if the files are
/// absent or wrong.
dataset_pair load_dataset(const config::data_settings& settings, uint64_t seed,
                          data_part wanted = data_part::both);

/// The properties of a data set that are known without its files.
struct dataset_facts {
  std::array<int64_t, 3> shape{}; ///< C, H, W
  int64_t classes = 0;
};

/// The facts of a data set; nothing if its files define them.
/// @throws usage_error if there is no such data set.
std::optional<dataset_facts> facts_of(const std::string& dataset);

/// Checks that one full batch can be made.
/// @throws run_error if `set` has fewer than `batch_size` samples.
void require_batch(const dataset& set, uint64_t batch_size);

/// The same for a set of which only the number of samples is known.
void require_batch(const std::string& name, uint64_t samples,
                   uint64_t batch_size);

} // namespace troupe::data
