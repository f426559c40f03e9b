#pragma once
// Why a connection or a path cannot be opened or has failed. Plain values.

#include <stdexcept>

namespace troupe::transport {

/// A line for the user.
class path_error : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

} // namespace troupe::transport
