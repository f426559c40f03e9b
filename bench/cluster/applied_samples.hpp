#pragma once
// What the event log of a run says of its samples. Whoever measures calls this;
// one thread.

#include <cstdint>
#include <filesystem>

namespace troupe::bench {

struct sample_account {
  uint64_t applied = 0; ///< In the weights, with those that are there twice.
  uint64_t lost = 0;    ///< Of finished epochs, and not in the weights.
  uint64_t doubled = 0; ///< Once too often in the weights.
};

/// Throws `run_error` when the event log cannot be read.
/// @pre the run had one server all the time
sample_account count_samples(const std::filesystem::path& event_log);

} // namespace troupe::bench
