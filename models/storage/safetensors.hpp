#pragma once
// The safetensors format: named tensors in one flat file, without code. Byte by
// byte in docs/formats.md. Works on plain memory: no LibTorch here.
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
  std::string dtype; ///< F64 | F32 | F16 | BF16 | I64 | U8
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes; ///< Little endian.
};

/// Free text that travels in the header under `__metadata__`.
using tensor_metadata = std::map<std::string, std::string>;

/// In the metadata of a file that vouches for itself: the SHA-256 of the whole
/// file, as 64 hex digits that count as zeros. Whoever reads such a file checks
/// it.
inline constexpr std::string_view seal_key = "troupe_sha256";

/// Headers above this size are refused (about 100,000 tensors).
inline constexpr uint64_t max_tensor_header = 16u << 20;

/// Bytes per element, or 0 when the type is not one of ours.
size_t dtype_size(std::string_view dtype) noexcept;

/// Writes the tensors straight from their memory. Wide element types come
/// first so that each tensor is aligned; within a type the order is kept.
void write_safetensors(output_file& out, std::span<const named_tensor> tensors,
                       const tensor_metadata& metadata = {});

/// The same with `seal_key` in the metadata.
void write_sealed_safetensors(output_file& out,
                              std::span<const named_tensor> tensors,
                              tensor_metadata metadata);

/// The content of a safetensors file. Owns the memory of its tensors; moving it
/// leaves their views valid.
class tensor_file {
public:
  tensor_file() = default;

  /// Checks everything (sizes, offsets, shapes, no overlap, no hole, the seal
  /// if there is one) before it trusts anything. `where` names the source in
  /// error lines.
  tensor_file(file_bytes content, const std::string& where);

  tensor_file(tensor_file&&) noexcept = default;
  tensor_file& operator=(tensor_file&&) noexcept = default;

  /// In the order of their bytes in the file.
  std::span<const named_tensor> tensors() const noexcept { return tensors_; }

  /// The tensor of that name, or null. Linear in the number of tensors.
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
