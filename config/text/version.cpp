#include "config/text/version.hpp"

namespace troupe::config {

std::string_view version() {
  return TROUPE_VERSION;
}

} // namespace troupe::config
