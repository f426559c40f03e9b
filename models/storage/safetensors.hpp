#pragma once
// The safetensors format: named tensors in one flat file, without code;
// docs/formats.md has the details. Works on plain memory, without LibTorch.
//
// Errors are `run_error`s: one line with the file and what is wrong in it.
// Functions are thread-safe; a `tensor_file` is immutable once made.

#include "models/storage/durable_file.hpp"

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::models {

/// A view of one dense, row-major tensor.
struct named_tensor {
  std::string name;
  /// F64 | F32 | F16 | BF16 | I64 | I32 | I16 | I8 | U8 | BOOL | U64 | U32 |
  /// U16 | C64 (complex) | F8_E4M3 | F8_E5M2 | F8_E8M0
  std::string dtype;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes; ///< Little endian.
};

/// Free text in the header, under `__metadata__`.
using tensor_metadata = std::map<std::string, std::string>;

/// The key of a checksum in the metadata: the SHA-256 of the whole file,
/// computed with its own 64 hex digits as zeros. Readers verify it.
inline constexpr std::string_view seal_key = "troupe_sha256";

/// Headers above this size are refused (about 100,000 tensors).
inline constexpr uint64_t max_tensor_header = 16u << 20;

/// Bytes per element; 0 for an unknown type.
size_t dtype_size(std::string_view dtype) noexcept;

/// Bytes of a tensor of this type and shape. Throws for an unknown type or a
/// shape that does not fit into memory.
uint64_t bytes_of(const named_tensor& tensor);

/// Where a tensor lies in a file.
struct tensor_place {
  named_tensor what;  ///< Without its bytes.
  uint64_t first = 0; ///< Byte behind the header.
  uint64_t bytes = 0;
};

struct tensor_index {
  std::vector<tensor_place> tensors; ///< In the order of their bytes.
  tensor_metadata metadata;
};

/// Throws unless a file with so many bytes behind the length of its header can
/// have a header of that length.
void check_header_length(uint64_t length, uint64_t behind,
                         const std::string& where);

/// Reads the header of a file: checks offsets and shapes, and that there is no
/// overlap or gap. @param size Bytes behind the header.
tensor_index read_tensor_index(std::string_view header, uint64_t size,
                               const std::string& where);

/// The tensors in the order in which a file has them.
std::vector<const named_tensor*>
file_order(std::span<const named_tensor> tensors);

/// What a file with these tensors begins with; their bytes are not looked at.
/// `where` names it in error lines.
std::string safetensors_head(std::span<const named_tensor> tensors,
                             const tensor_metadata& metadata,
                             const std::string& where);

/// Writes the tensors directly from their memory. Wide element types come
/// first, so that each tensor is aligned; within a type the order is kept.
void write_safetensors(output_file& out, std::span<const named_tensor> tensors,
                       const tensor_metadata& metadata = {});

/// The same with `seal_key` in the metadata.
void write_sealed_safetensors(output_file& out,
                              std::span<const named_tensor> tensors,
                              tensor_metadata metadata);

/// The content of a safetensors file. Owns the memory of its tensors; their
/// views stay valid when it is moved.
class tensor_file {
public:
  tensor_file() = default;

  /// Checks sizes, offsets, shapes, that there is no overlap or gap, and the
  /// checksum if there is one. `where` names the source in error lines.
  tensor_file(file_bytes content, const std::string& where);

  tensor_file(tensor_file&&) noexcept = default;
  tensor_file& operator=(tensor_file&&) noexcept = default;

  /// In the order of their bytes in the file.
  std::span<const named_tensor> tensors() const noexcept { return tensors_; }

  /// The tensor of this name, or null. Linear in the number of tensors.
  const named_tensor* find(std::string_view name) const noexcept;

  const tensor_metadata& metadata() const noexcept { return metadata_; }

private:
  file_bytes content_;
  std::vector<named_tensor> tensors_;
  tensor_metadata metadata_;
};

/// Reads and checks a file.
tensor_file read_safetensors(const std::filesystem::path& path);

} // namespace troupe::models
