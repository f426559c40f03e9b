#pragma once
// Estimates the memory that the tensors of each role take, from the settings
// and the sizes of model and data. It counts neither the needs of LibTorch,
// program and kernel nor those of forward and backward. Pure functions.

#include "config/text/settings.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe::config {

/// The size of the data set, as far as a survey tells.
struct data_size {
  std::optional<int64_t> classes; ///< None: known only once samples are read.
  std::optional<uint64_t> train;  ///< Samples. None: they are not counted.
  std::optional<uint64_t> test;
  uint64_t sample = 0;   ///< Numbers in one sample.
  uint64_t resident = 0; ///< Bytes that stay in memory once loaded.
  std::string without{}; ///< Files that will not be used; empty: none.
};

/// The size of the model.
struct model_size {
  uint64_t parameters = 0;
  uint64_t statistics = 0;           ///< Of batch normalisation; sent as well.
  std::vector<uint64_t> shard_bytes; ///< Parameters of each shard.
  int64_t classes = 0;               ///< Classes it was made for.
  std::optional<data_size> data{};
  uint64_t frozen = 0;       ///< Numbers that are not trained (`--freeze`).
  std::string cut{};         ///< Which parts are where; empty: in one piece.
  uint64_t with_servers = 0; ///< Parameters that no worker has.
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

/// The largest memory of each role, once the cluster is complete; empty if
/// nothing is trained. Memory that roles share, in one process or over `shm`,
/// is counted for each role.
std::vector<role_memory> memory_of(const settings& all, const model_size& size);

} // namespace troupe::config
