#pragma once
// Data sets in memory, and batches made from them. A data set never changes
// after it was made: any number of threads may gather from it.

#include "config/settings.hpp"

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace troupe::data {

/// What one step of training or evaluation consumes.
struct batch {
  at::Tensor inputs;    ///< [n, C, H, W], normalised, of the wanted dtype.
  at::Tensor targets;   ///< [n], int64, in [0, classes).
  uint64_t samples = 0; ///< n
};

/// Images as bytes with their labels; normalised when gathered.
class dataset {
public:
  /// What a data set is made of.
  struct parts {
    std::string name;
    std::array<int64_t, 3> shape{}; ///< C, H, W
    int64_t classes = 0;
    std::vector<uint8_t> pixels; ///< [n, C, H, W]
    std::vector<uint8_t> labels; ///< [n]
    /// A byte x becomes (x / 255 - mean) / deviation.
    double mean = 0;
    double deviation = 1;
  };

  /// @throws run_error if pixels and labels differ in number of samples, or a
  /// label is not below `classes`.
  explicit dataset(parts content);

  const std::string& name() const noexcept { return content_.name; }

  /// Number of samples.
  uint64_t size() const noexcept { return content_.labels.size(); }

  /// Shape of one sample: C, H, W.
  std::vector<int64_t> shape() const;

  int64_t classes() const noexcept { return content_.classes; }

  /// The samples at `indices`, in that order, in freshly made tensors.
  /// Every value is looked up in a table: same bits on every platform.
  /// @throws run_error if an index is not in [0, size()).
  batch gather(std::span<const int64_t> indices,
               config::scalar_type dtype) const;

  /// The samples first .. first + count - 1.
  batch gather_range(uint64_t first, uint64_t count,
                     config::scalar_type dtype) const;

private:
  parts content_;
  std::array<float, 256> float_values_;
  std::array<double, 256> double_values_;
};

struct dataset_pair {
  std::shared_ptr<const dataset> train;
  std::shared_ptr<const dataset> test;
};

/// Loads the set named in the settings. `seed` selects the split of sets that
/// come unsplit (digits); the others ignore it.
/// @throws usage_error if the name is unknown or a needed data-dir is not
/// given; run_error if the files are absent or wrong.
dataset_pair load_dataset(const config::data_settings& settings, uint64_t seed);

/// The names that load_dataset knows.
std::vector<std::string> dataset_names();

/// A step needs a full batch.
/// @throws run_error if `set` has fewer than `batch_size` samples.
void require_batch(const dataset& set, uint64_t batch_size);

} // namespace troupe::data
