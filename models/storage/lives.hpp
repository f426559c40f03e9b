#pragma once
// The last life of a run's parameter server, in the file `lives` of its run
// directory: its number, and a word that only the process of that life knows.
// Workers tell lives apart by the number, so none may be used twice, even if a
// server died before it wrote a checkpoint. A server that was stopped for so
// long that another leads its run learns so from the word.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

namespace troupe::models {

/// The claim that this process leads a run. Immutable, so any thread may ask.
class life_claim {
public:
  /// @param written What the file says as long as nobody else leads the run.
  life_claim(std::filesystem::path run, std::string written)
    : run_(std::move(run)), written_(std::move(written)) {
    // nop
  }

  /// To be called before anything is written into the run's directory. Throws
  /// `run_error` if another process has begun a life of the run since.
  void require() const;

private:
  std::filesystem::path run_;
  std::string written_;
};

using life_claim_ptr = std::shared_ptr<const life_claim>;

/// The last life; 0 when there was none. Throws `run_error` when the file holds
/// no number. Called by main's thread before the server starts.
uint32_t last_life(const std::filesystem::path& run);

/// Writes that this process has begun that life; durable when this returns.
/// Throws `run_error`.
life_claim_ptr note_life(const std::filesystem::path& run, uint32_t life);

} // namespace troupe::models
