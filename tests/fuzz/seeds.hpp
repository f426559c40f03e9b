#pragma once
// Valid inputs of each format, made by our own writers: the fuzzer starts from
// them, and a test checks that the readers accept them.

#include <filesystem>
#include <map>
#include <string>

namespace troupe::fuzz {

/// Inputs by name, for example "worker.bin".
using inputs = std::map<std::string, std::string>;

inputs data_seeds(std::string_view format); ///< Files of data sets.
inputs run_seeds(std::string_view format);  ///< Files of runs.
inputs text_seeds(std::string_view format); ///< Settings.
inputs peer_seeds(std::string_view format); ///< Messages of peers.
inputs tls_seeds(std::string_view format);  ///< Handshakes, certificates, keys.
inputs entry_seeds(std::string_view format);
inputs trust_seeds(std::string_view format);
inputs launch_seeds(std::string_view format);

/// Inputs of any format.
inputs seeds(std::string_view format);

/// Writes one folder for each format.
void write_seeds(const std::filesystem::path& folder);

/// Numbers in the form in which targets take them from the front of their
/// input.
template <class T>
std::string number(T x) {
  std::string out;
  for (size_t i = 0; i < sizeof x; ++i)
    out += static_cast<char>(x >> (8 * i));
  return out;
}

} // namespace troupe::fuzz
