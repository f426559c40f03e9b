#pragma once
// A safetensors file whose tensors stay on the disk and are read a part at a
// time: the state of an optimiser is larger than the weights, and each shard
// wants only its range of it.
//
// Errors are `run_error`s: one line with the file and what is wrong. Move-only;
// reading is thread-safe. The file stays open, so that it can be read even when
// it has lost its name.

#include "config/text/input_file.hpp"
#include "models/storage/safetensors.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::models {

class stored_tensors {
public:
  /// No tensors.
  stored_tensors() = default;

  /// Checks what `tensor_file` checks, except for a checksum within the file.
  /// @param where Names the file in error lines.
  stored_tensors(std::unique_ptr<const config::input_file> file,
                 std::string where);

  /// In the order of their bytes in the file, but without the bytes.
  std::span<const named_tensor> tensors() const noexcept { return tensors_; }

  const tensor_metadata& metadata() const noexcept { return metadata_; }

  /// The tensor of this name, or null. Linear in the number of tensors.
  const named_tensor* find(std::string_view name) const noexcept;

  /// Reads bytes of one of `tensors()`, from its byte `first` on.
  void read(const named_tensor& which, uint64_t first,
            std::span<std::byte> to) const;

private:
  std::unique_ptr<const config::input_file> file_;
  std::string where_;
  std::vector<named_tensor> tensors_;
  std::vector<uint64_t> places_; ///< Where each begins in the file.
  tensor_metadata metadata_;
};

} // namespace troupe::models
