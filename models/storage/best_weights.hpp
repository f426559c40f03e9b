#pragma once
// best.safetensors in a run directory: the weights of the best score so far,
// with the score in the header and a checksum. The file is replaced in one
// step: readers, and a crash, see the old or the new file. Written by the
// checkpoint writer. Errors are `run_error`s of one line.

#include "config/values/metrics.hpp"
#include "models/storage/safetensors.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>

namespace troupe::models {

inline constexpr const char* best_weights_file = "best.safetensors";

struct best_score {
  uint64_t step = 0; ///< The version of the weights.
  config::metrics metrics;
};

/// Writes the state dict of `best`; durable when this returns.
void write_best(const std::filesystem::path& run, const best_score& best,
                const std::string& run_id,
                std::span<const named_tensor> weights);

/// To be called before the first write of a life. Returns the score of the
/// weights in `run`, if there are any, and removes what a killed writer left.
/// Weights that are damaged, or of another run, are renamed to `damaged-...` or
/// `abandoned-...`, with a line that says so. Throws when they cannot be read,
/// since they may be good.
std::optional<best_score>
open_best(const std::filesystem::path& run, const std::string& run_id,
          const std::function<void(const std::string&)>& on_line = {});

/// The score of the best weights in `run`, by the header of the file alone.
/// Throws `run_error` when there are none.
best_score read_best_score(const std::filesystem::path& run);

/// Copies the best weights of `from` to `to`, if they are intact and of this
/// step and run.
void copy_best(const std::filesystem::path& from,
               const std::filesystem::path& to, uint64_t step,
               const std::string& run_id);

} // namespace troupe::models
