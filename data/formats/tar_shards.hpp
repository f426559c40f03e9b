#pragma once
// Samples in tar files, in the manner of WebDataset: groups of members whose
// names are the same up to the first dot after the last slash (the stem). One
// of a group is an image and one, STEM.cls, the number of its class. Names may
// have more dots: the label of "a 1.5.jpg" is "a 1.5.cls", and such a group may
// hold several samples, one after another. Hidden members (left_out.hpp) are no
// part of a group. Stateless; any thread.

#include "config/values/tar_shards.hpp"
#include "data/formats/tar.hpp"
#include "data/left_out.hpp"
#include "data/store.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace troupe::data {

struct tar_sample {
  std::string image; ///< Name of the member.
  uint64_t begin = 0;
  uint64_t size = 0;
  int64_t label = 0;
  uint64_t first = 0; ///< Where its members are: first .. last - 1.
  uint64_t last = 0;
};

/// The largest valid label.
inline constexpr int64_t highest_label = 1'000'000;

/// @param without Counts the members that are of no sample.
/// @throws run_error naming file, position and what is wrong there.
std::vector<tar_sample> index_samples(const bytes_at& read, uint64_t size,
                                      const std::string& name,
                                      left_out* without = nullptr);

/// The samples of a file.
std::vector<tar_sample> index_shard(const std::filesystem::path& file,
                                    left_out* without = nullptr);

/// Reads part of a file.
/// @throws run_error if it does not hold so much.
std::vector<uint8_t> read_part(const std::filesystem::path& file,
                               uint64_t begin, uint64_t size);

struct shard_files {
  std::vector<std::filesystem::path> train;
  std::vector<std::filesystem::path> test;
};

/// The files that a declaration means, which all exist; test files only if they
/// are wanted.
/// @throws run_error if there are none, or one is absent.
shard_files find_shards(const config::tar_shards& archives,
                        const std::filesystem::path& data_dir,
                        data_part wanted = data_part::both);

} // namespace troupe::data
