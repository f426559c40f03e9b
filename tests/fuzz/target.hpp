#pragma once
// Helpers shared by the fuzz targets. A target passes bytes to a reader as
// production code does. The reader must accept them or throw an error of one
// line; any other exception is a finding.

#include "config/text/failure.hpp"
#include "config/text/text.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string_view>

namespace troupe::fuzz {

using bytes_view = std::span<const uint8_t>;

/// A broken promise of a reader. Nobody catches it, so it ends the fuzzer and
/// fails the test.
class finding : public std::logic_error {
public:
  using std::logic_error::logic_error;
};

inline void require(bool holds, const char* promise) {
  if (!holds)
    throw finding(promise);
}

/// The longest line that a user may get.
inline constexpr size_t longest_line = 2000;

inline void require_one_line(std::string_view line) {
  if (config::has_control_character(line))
    throw finding("not one line: " + config::shown(line));
  require(line.size() <= longest_line, "a line that nobody reads to its end");
}

/// Calls `read`; returns whether it accepted the input.
template <class Complaint = failure, class Read>
bool taken(Read read) {
  try {
    read();
    return true;
  } catch (const Complaint& why) {
    require_one_line(why.what());
    return false;
  }
}

inline std::string_view text_of(bytes_view bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Takes a number from the front; 0 when nothing is left.
template <class T>
T take_number(bytes_view& from) {
  T out{};
  for (size_t i = 0; i < sizeof(T) && !from.empty(); ++i) {
    out = static_cast<T>(out | T{from.front()} << (8 * i));
    from = from.subspan(1);
  }
  return out;
}

/// Takes so many bytes from the front, or what is left.
inline bytes_view take_bytes(bytes_view& from, size_t count) {
  auto out = from.first(std::min(count, from.size()));
  from = from.subspan(out.size());
  return out;
}

} // namespace troupe::fuzz
