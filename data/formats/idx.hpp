#pragma once
// IDX, the file format of MNIST and its relatives: a big-endian header (magic
// 00 00 08 <dimensions>, then one uint32 for each dimension), then the bytes.
// Plain or gzip, recognised by content. Files are not trusted: no memory is
// allocated for data that is not there. Stateless; any thread.

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace troupe::data {

/// Gray images, row by row, one after another.
struct idx_images {
  uint64_t count = 0;
  uint32_t rows = 0;
  uint32_t columns = 0;
  std::vector<uint8_t> pixels; ///< [count, rows, columns]
};

/// The header of an IDX file.
struct idx_header {
  uint64_t count = 0;
  uint32_t rows = 0; ///< 0 for labels.
  uint32_t columns = 0;
};

/// The most bytes to which a file may decompress. MNIST has 47 million.
inline constexpr uint64_t max_idx_bytes = uint64_t{1} << 30;

/// Reads an idx3-ubyte file.
/// @throws run_error naming file, position and what is wrong there.
idx_images read_idx_images(const std::filesystem::path& file,
                           uint64_t max_bytes = max_idx_bytes);

/// Reads an idx1-ubyte file: one label for each sample.
/// @throws run_error naming file, position and what is wrong there; also if a
/// label is not below `classes`.
std::vector<uint8_t> read_idx_labels(const std::filesystem::path& file,
                                     uint32_t classes,
                                     uint64_t max_bytes = max_idx_bytes);

/// Reads only the header of an idx3-ubyte file.
/// @throws run_error as above, as far as the header tells.
idx_header read_idx_images_header(const std::filesystem::path& file);
/// Reads only the header of an idx1-ubyte file.
idx_header read_idx_labels_header(const std::filesystem::path& file);

/// Parse such files from memory; `name` stands for the file in errors.
idx_images parse_idx_images(std::span<const uint8_t> bytes,
                            const std::string& name);
std::vector<uint8_t> parse_idx_labels(std::span<const uint8_t> bytes,
                                      uint32_t classes,
                                      const std::string& name);

} // namespace troupe::data
