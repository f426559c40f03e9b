#pragma once
// Data sets, and batches made from them. A data set is a store of samples, what
// is done to each on its way into a batch, and how bytes become numbers. It
// never changes after it was made: any number of threads may gather from it.

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

namespace troupe::data {

/// What one step of training or evaluation consumes.
struct batch {
  at::Tensor inputs;    ///< [n, C, H, W], normalised, of the wanted dtype.
  at::Tensor targets;   ///< [n], int64, in [0, classes).
  uint64_t samples = 0; ///< n
};

/// Memory that batches are made in.
enum class batch_memory : uint8_t {
  pageable,
  pinned ///< A GPU copies from it while the host goes on.
};

/// Pinned for a GPU, where LibTorch has one; else pageable.
batch_memory memory_for(const std::string& device);

/// How bytes become numbers: x is (x / 255 - mean) / deviation. One value for
/// each channel, or one for all.
struct normalisation {
  std::vector<double> mean{0};
  std::vector<double> deviation{1};
};

class dataset {
public:
  /// A data set in memory whose samples are normalised only.
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

  /// What is known of a data set besides its samples.
  struct description {
    std::string name;
    std::array<int64_t, 3> shape{}; ///< C, H, W of what comes out.
    int64_t classes = 0;
    normalisation scale;
    transforms how = {};
    /// What becomes of samples that cannot be read.
    config::bad_sample_rule bad = config::bad_sample_rule::fail;
    bool training = false; ///< A batch must be full.
  };

  /// @pre store is not null
  dataset(std::shared_ptr<const sample_store> store, description what);

  const std::string& name() const noexcept { return what_.name; }

  /// Number of samples.
  uint64_t size() const noexcept { return store_->size(); }

  /// Shape of one sample: C, H, W.
  std::vector<int64_t> shape() const;

  int64_t classes() const noexcept { return what_.classes; }

  /// Whether a batch is but a copy of samples that lie in memory: nothing is
  /// read, decoded or changed at random for it.
  bool only_copies() const noexcept;

  /// Tells this set's samples from those of another: of the labels, in order.
  uint64_t digest() const;

  /// The same of what the samples themselves are; see `sample_store`.
  uint64_t content_digest() const { return store_->content_digest(); }

  /// The samples at `indices`, in that order, in freshly made tensors. What is
  /// random about a sample depends on the seed, `epoch` and its index alone.
  /// Every value is looked up in a table: same bits on every platform.
  /// A sample that cannot be read is an error, or, if the data set is so
  /// described, another takes its place (training) or it is left out.
  /// @throws run_error if an index is not in [0, size()), or about a sample
  /// that cannot be read.
  batch gather(std::span<const int64_t> indices, config::scalar_type dtype,
               uint64_t epoch = 0,
               batch_memory where = batch_memory::pageable) const;

  /// The samples first .. first + count - 1.
  batch gather_range(uint64_t first, uint64_t count,
                     config::scalar_type dtype) const;

  /// Samples that could not be read so far and are done without.
  uint64_t skipped() const;

  /// Why the samples that were skipped since the last call cannot be read.
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

  /// The same with another sample for one that cannot be read, where samples
  /// may be skipped; -1 if there is none.
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

/// Null where a part was not asked for.
struct dataset_pair {
  std::shared_ptr<const dataset> train;
  std::shared_ptr<const dataset> test;
};

/// Loads the set named in the settings, with the transforms that they ask for;
/// of the part that is not wanted no samples are read, and its files need not
/// be there, but for what they say of the classes (folder, tar). `seed` selects
/// the split of sets that come unsplit (digits), and what is random about
/// samples.
/// @throws usage_error if the name is unknown, a needed data-dir is not given
/// or the transforms do not suit the set; run_error if the files are absent or
/// wrong.
dataset_pair load_dataset(const config::data_settings& settings, uint64_t seed,
                          data_part wanted = data_part::both);

/// What is known of a data set without its files.
struct dataset_facts {
  std::array<int64_t, 3> shape{}; ///< C, H, W
  int64_t classes = 0;
};

/// Nothing for those whose files say it.
/// @throws usage_error if there is no such data set.
std::optional<dataset_facts> facts_of(const std::string& dataset);

/// A step needs a full batch.
/// @throws run_error if `set` has fewer than `batch_size` samples.
void require_batch(const dataset& set, uint64_t batch_size);

} // namespace troupe::data
