#pragma once
// Texts that other processes of this user read as files, such as the token of a
// run: they lie in memory, other users cannot read them, they are on no disk,
// and they end with this object. For one thread.

#include "config/text/descriptor.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace troupe::app {

class kept_text {
public:
  /// A file that every process of this user can read while the object lives.
  /// Throws `run_error`.
  std::string keep(std::string_view text);

private:
  std::vector<config::descriptor> files_;
};

} // namespace troupe::app
