#pragma once
// Where the samples of a data set are kept: in memory, or in files that are
// read and decoded when a sample is requested. Owned by the data set. A store
// never changes after construction; any number of threads may load from it.

#include "data/transforms/picture.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace troupe::data {

/// Which part of a data set is loaded: a worker needs no test samples, and an
/// evaluator needs only those.
enum class data_part : uint8_t { both, train, test };

inline bool wants_train(data_part wanted) {
  return wanted != data_part::test;
}

inline bool wants_test(data_part wanted) {
  return wanted != data_part::train;
}

class sample_store {
public:
  sample_store() = default;
  sample_store(const sample_store&) = delete;
  sample_store& operator=(const sample_store&) = delete;
  virtual ~sample_store() = default;

  virtual uint64_t size() const noexcept = 0;

  /// @pre index < size()
  virtual int64_t label(uint64_t index) const = 0;

  /// Loads the part of a sample that `choose` asks for. A picture that does not
  /// own its pixels is valid as long as the store.
  /// @pre index < size()
  /// @throws run_error naming file and place if the sample cannot be read.
  virtual picture load(uint64_t index, const window_choice& choose) const = 0;

  /// A digest that tells these samples from others: of their bytes if they are
  /// in memory, of names and lengths if they are in files. Throws nothing: a
  /// missing file counts as empty.
  virtual uint64_t content_digest() const = 0;

  /// Whether loading takes so long that threads should share the work.
  virtual bool decodes() const noexcept = 0;
};

/// Images as bytes, [n, C, H, W], one after another.
class memory_store final : public sample_store {
public:
  struct parts {
    std::string name;
    std::array<int64_t, 3> shape{}; ///< C, H, W
    int64_t classes = 0;
    std::vector<uint8_t> pixels; ///< [n, C, H, W]
    std::vector<uint8_t> labels; ///< [n]
  };

  /// @throws run_error if pixels and labels differ in number of samples, or a
  /// label is not below `classes`.
  explicit memory_store(parts content);

  uint64_t size() const noexcept override { return content_.labels.size(); }

  int64_t label(uint64_t index) const override {
    return content_.labels[index];
  }

  picture load(uint64_t index, const window_choice& choose) const override;

  uint64_t content_digest() const override;

  bool decodes() const noexcept override { return false; }

private:
  parts content_;
};

} // namespace troupe::data
