#pragma once
// The file of `launch --hosts`: which machines there are. A line for each, with
// its name or address first, so that a list of addresses alone is one, too:
//
//   # comment
//   10.0.0.1             ; the server
//   anna@node2 slots=4
//   fe80::7
//
// Pure functions on plain values; any thread.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::app {

struct listed_host {
  std::string login;   ///< As ssh gets it: "anna@node2".
  std::string address; ///< Without the user: where nodes find it.
  uint32_t slots = 1;  ///< How many processes it gets in each round.
  std::string where;   ///< "hosts:3"
};

/// Throws `usage_error`: the file cannot be read, or names no host; a line is
/// none of a host; a host is there twice.
std::vector<listed_host> read_host_list(const std::filesystem::path& file);

/// The same for a text. @param file Its name, for errors.
std::vector<listed_host> parse_host_list(std::string_view text,
                                         const std::string& file);

} // namespace troupe::app
