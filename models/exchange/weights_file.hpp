#pragma once
// A file of weights that a run is to begin with: safetensors, or of torch.save.
// Its first bytes, not its name, tell which of them it is.
//
// Errors are `run_error`s: one line with the file and what is wrong in it. A
// `weights_file` is immutable once made; any thread.

#include "models/exchange/torch_file.hpp"

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::models {

class weights_file {
public:
  explicit weights_file(std::filesystem::path path);

  weights_file(weights_file&&) noexcept = default;

  const std::filesystem::path& path() const noexcept { return path_; }

  /// SHA-256 of the whole file, in hex.
  const std::string& sha256() const noexcept { return sha256_; }

  /// By key, as it is in the file.
  const std::map<std::string, named_tensor, std::less<>>&
  tensors() const noexcept {
    return tensors_;
  }

  /// Whether the state of an optimiser lies beside the weights.
  bool has_optimizer() const noexcept { return has_optimizer_; }

private:
  void sort_tensors(std::vector<named_tensor> all);

  std::filesystem::path path_;
  file_bytes content_; ///< Of a file of torch.save.
  tensor_file safe_;   ///< Of safetensors.
  std::vector<file_bytes> copies_;
  std::map<std::string, named_tensor, std::less<>> tensors_;
  bool has_optimizer_ = false;
  std::string sha256_;
};

} // namespace troupe::models
