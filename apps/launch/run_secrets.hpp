#pragma once
// What the processes of a launch need to know each other: a token, and a
// certificate for the servers where they listen beyond loopback. They lie in
// memory that is a file of the launch: other users cannot read it, it is on no
// disk, and it ends with the launch. For one thread.

#include "config/text/descriptor.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace troupe::app {

class run_secrets {
public:
  struct identity {
    std::string certificate; ///< A file.
    std::string key;         ///< A file.
    std::string fingerprint; ///< For --tls-pin.
  };

  /// A file with a new random token. Throws `run_error`.
  std::string make_token();

  /// A new certificate of a server that others dial at `host`. Throws
  /// `run_error`.
  identity make_identity(const std::string& host);

private:
  /// A file that every process of this user can read while the object lives.
  std::string keep(std::string_view text);

  std::vector<config::descriptor> files_;
};

} // namespace troupe::app
