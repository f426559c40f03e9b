#pragma once
// The contents that tests of checkpoints write.

#include "models/storage/checkpoint.hpp"

#include <cstring>
#include <string>
#include <vector>

namespace troupe::testing {

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& xs) {
  return std::as_bytes(std::span{xs});
}

/// A small model, different for each step.
struct sample_tensors {
  explicit sample_tensors(uint64_t step, size_t size = 24)
    : weight(size), bias(4), count{static_cast<int64_t>(step)}, momentum(size) {
    for (size_t i = 0; i < size; ++i) {
      weight[i] = static_cast<float>(step) + static_cast<float>(i) * 0.25F;
      momentum[i] = -weight[i];
    }
    auto columns = static_cast<int64_t>(size) / 4;
    weights = {{"conv1.weight", "F32", {4, 1, columns}, bytes_of(weight)},
               {"conv1.bias", "F32", {4}, bytes_of(bias)},
               {"bn.num_batches_tracked", "I64", {}, bytes_of(count)}};
    slots = {{models::slot_key("momentum_buffer", "conv1.weight"),
              "F32",
              {4, 1, columns},
              bytes_of(momentum)}};
  }

  sample_tensors(const sample_tensors&) = delete;
  sample_tensors& operator=(const sample_tensors&) = delete;

  std::vector<float> weight;
  std::vector<float> bias;
  std::vector<int64_t> count;
  std::vector<float> momentum;
  std::vector<models::named_tensor> weights;
  std::vector<models::named_tensor> slots;
};

inline proto::Manifest sample_manifest(uint64_t step) {
  proto::Manifest result;
  result.set_step(step);
  result.set_run_id("run-" + std::to_string(step));
  result.set_network("lenet");
  return result;
}

inline std::filesystem::path write_sample(const std::filesystem::path& dir,
                                          uint64_t step) {
  sample_tensors tensors{step};
  return models::write_checkpoint(dir, sample_manifest(step),
                                  {tensors.weights, tensors.slots});
}

} // namespace troupe::testing
