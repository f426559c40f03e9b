#pragma once
// How much memory the tensors of each role take, by what the settings and the
// sizes of model and data say. What LibTorch, a program and the kernel need for
// themselves is not in it, nor what forward and backward need.

#include "config/text/settings.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe::config {

/// What a look at the data tells.
struct data_size {
  std::optional<int64_t> classes; ///< None: the samples alone say it.
  std::optional<uint64_t> train;  ///< Samples. None: they are not counted.
  std::optional<uint64_t> test;
  uint64_t sample = 0;   ///< Numbers of one sample.
  uint64_t resident = 0; ///< Bytes of all that stays in memory once loaded.
};

/// What the settings do not say about the model.
struct model_size {
  uint64_t parameters = 0;
  uint64_t statistics = 0; ///< Of batch normalisation; they travel too.
  std::vector<uint64_t> shard_bytes; ///< Parameters of each shard.
  int64_t classes = 0;               ///< That it was made for.
  std::optional<data_size> data{};
};

struct memory_part {
  std::string what;
  uint64_t bytes = 0;
};

/// The memory of one process.
struct role_memory {
  std::string who; ///< "parameter server"
  std::vector<memory_part> parts;
  bool computes = false; ///< Forward and backward come on top.

  uint64_t bytes() const;
};

/// Buffers of the parameters' size that an optimiser keeps.
uint64_t slots_of(const training_settings& training);

/// At most, once the cluster is complete. Empty where nothing is trained. What
/// tensors share, in one process or over `shm`, counts once for each role.
std::vector<role_memory> memory_of(const settings& all, const model_size& size);

} // namespace troupe::config
