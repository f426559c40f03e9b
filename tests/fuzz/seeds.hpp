#pragma once
// Good inputs of each format, made by our own writers: for the fuzzer to begin
// with, and for the test that the readers take them.

#include <filesystem>
#include <map>
#include <string>

namespace troupe::fuzz {

/// By name, "worker.bin".
using inputs = std::map<std::string, std::string>;

inputs data_seeds(std::string_view format); ///< Of files of data sets.
inputs run_seeds(std::string_view format);  ///< Of files of runs.
inputs text_seeds(std::string_view format); ///< Of settings.
inputs peer_seeds(std::string_view format); ///< Of what peers say.

/// Of any format.
inputs seeds(std::string_view format);

/// A folder of each format.
void write_seeds(const std::filesystem::path& folder);

/// Numbers as targets take them off the front of their input.
template <class T>
std::string number(T x) {
  std::string out;
  for (size_t i = 0; i < sizeof x; ++i)
    out += static_cast<char>(x >> (8 * i));
  return out;
}

} // namespace troupe::fuzz
