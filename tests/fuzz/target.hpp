#pragma once
// What every target does with its bytes: a complaint is right, anything else
// that leaves the reader is a finding.

#include "config/failure.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>

namespace troupe::fuzz {

/// Calls `read`. A `run_error` must be one line that begins with the name "x".
template <class Read>
void expect_complaint_or_nothing(Read read) {
  try {
    read();
  } catch (const run_error& why) {
    std::string_view line{why.what()};
    if (!line.starts_with("x") || line.find('\n') != line.npos)
      std::abort();
  }
}

} // namespace troupe::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
