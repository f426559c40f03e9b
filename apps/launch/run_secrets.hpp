#pragma once
// What the processes of a launch need to know each other: a token, and a
// certificate for the servers where they listen beyond loopback. They end with
// the launch. For one thread.

#include "apps/launch/hosts/kept_text.hpp"

#include <map>
#include <string>
#include <string_view>

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

  /// What each of the files holds, for hosts that do not see them.
  const std::map<std::string, std::string>& texts() const { return texts_; }

private:
  std::string keep(std::string_view text);

  kept_text files_;
  std::map<std::string, std::string> texts_;
};

} // namespace troupe::app
